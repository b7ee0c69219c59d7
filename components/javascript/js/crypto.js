// node:crypto: that of wasm-rquickjs, with a default export.

import * as web from '__wasm_rquickjs_builtin/web_crypto';

export * from '__wasm_rquickjs_builtin/web_crypto';

export default { ...web };
