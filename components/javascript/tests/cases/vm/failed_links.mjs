// run: --experimental-vm-modules --no-warnings failed_links.mjs
import vm from 'node:vm';
const evaluateTwice = async (module) => {
    for (let i = 0; i < 2; i += 1) await module.evaluate().catch((error) => console.log(module.status, error.code, error.message));
};
for (const linker of [async () => { throw new Error('not found'); }, () => 1]) {
    const module = new vm.SourceTextModule('import "missing"; import "other";');
    await module.link(linker).catch((error) => console.log(module.status, error.message));
    await evaluateTwice(module);
    console.log(module.error.message);
}
const failing = new vm.SourceTextModule('throw new Error("once")');
await failing.link(() => {});
await evaluateTwice(failing);
