// run: --no-warnings --experimental-vm-modules modules.mjs
import vm from 'node:vm';

const sources = {
    './area.js': "import { PI } from 'numbers'; import * as self from './area.js'; export const area = (r) => PI * r * r; export const names = () => Object.keys(self);",
    './main.js': "import { area } from './area.js'; import data from 'data' with { type: 'json' }; export default area(data.radius); export const url = import.meta.url; export const lazy = import('./lazy.js');",
    './lazy.js': 'export const loaded = await Promise.resolve(true);',
};
const modules = new Map();
const numbers = new vm.SyntheticModule(['PI'], function () { this.setExport('PI', 3); });

function load(specifier) {
    if (modules.has(specifier)) return modules.get(specifier);
    const module = new vm.SourceTextModule(sources[specifier], {
        identifier: `vm:${specifier}`,
        initializeImportMeta(meta, { identifier }) { meta.url = identifier; },
        async importModuleDynamically(name, referrer) {
            console.log('import', name, 'of', referrer.identifier);
            const found = load(name);
            if (found.status === 'unlinked') await found.link(resolve);
            await found.evaluate();
            return found;
        },
    });
    modules.set(specifier, module);
    return module;
}

function resolve(specifier, referrer, { attributes }) {
    console.log('link', specifier, 'of', referrer.identifier, { ...attributes });
    if (specifier === 'numbers') return numbers;
    if (specifier === 'data') return new vm.SyntheticModule(['default'], function () { this.setExport('default', { radius: 2 }); });
    return load(specifier);
}

const main = load('./main.js');
console.log(main.status, main.dependencySpecifiers);
await main.link(resolve);
console.log(main.status, await main.evaluate(), main.status);
console.log(main.namespace.default, main.namespace.url, (await main.namespace.lazy).loaded, modules.get('./area.js').namespace.names());

const broken = new vm.SourceTextModule('throw new TypeError("broken")');
await broken.link(() => {});
await broken.evaluate().catch((error) => console.log(error.message, broken.status, broken.error === error));
for (const work of [
    () => new vm.SourceTextModule('import "a"').evaluate(),
    () => new vm.SourceTextModule('import "a"').link(() => ({})),
    () => new vm.SourceTextModule('import { b } from "a"').link(() => new vm.SourceTextModule('')),
]) await work().catch((error) => console.log(error.name, error.code));

const context = vm.createContext({ shared: 1 });
const inside = new vm.SourceTextModule('shared += 1; export const list = [];', { context });
await inside.link(() => {});
await inside.evaluate();
console.log(context.shared, inside.namespace.list instanceof Array, inside);
