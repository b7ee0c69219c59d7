// run: --no-warnings --experimental-vm-modules dynamic_import.js
const vm = require('node:vm');
const main = vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;

(async () => {
    for (const options of [{}, { importModuleDynamically: main }, { importModuleDynamically: (name) => import(`node:${name}`) }]) {
        for (const run of [
            () => new vm.Script('import("os")', options).runInThisContext(),
            () => new vm.Script('eval(\'import("os")\')', options).runInNewContext(),
            () => vm.compileFunction('return import("os")', [], options)(),
        ]) {
            try {
                console.log(typeof (await run()).platform);
            } catch (error) {
                console.log(error.name, error.code);
            }
        }
    }
})();
