// node:crypto: that of wasm-rquickjs, with a default export.

import * as web from '__wasm_rquickjs_builtin/web_crypto';

export * from '__wasm_rquickjs_builtin/web_crypto';

const exported = { ...web };
// The old names of `randomBytes` are not listed.
for (const name of ['pseudoRandomBytes', 'prng', 'rng']) Object.defineProperty(exported, name, { enumerable: false });

export default exported;
