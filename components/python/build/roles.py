"""Which core instance is what, and what an import comes to in the end."""

import component as c
import wasm


class Roles:
    """Which instance is the shim, which the fix-up, and which become one."""

    def __init__(self, wiring):
        bags = [i for i, x in enumerate(wiring.instances) if isinstance(x, c.Bag) and "$imports" in x.items]
        (self.bag,) = bags
        self.shim = wiring.spaces[c.TABLE][wiring.instances[self.bag].items["$imports"][1]].instance
        modules = [i for i, x in enumerate(wiring.instances) if isinstance(x, c.Module)]
        (self.fixup,) = (i for i in modules if self.bag in wiring.instances[i].given.values())
        self.merged = [i for i in modules if i not in (self.shim, self.fixup)]
        used = [wiring.instances[i].module for i in modules]
        assert len(set(used)) == len(used) == len(wiring.modules), "a module is instantiated twice or never"
        for module in wiring.modules:
            assert all(kind != 8 for kind, _ in wasm.sections(module)), "a start function would run before the shim's table is filled"
        # What the merged module imports of the component's own functions; filled as the imports are renamed.
        self.builtins = set()


def resolve(wiring, roles, item):
    """What an import comes to in the end: a host function, an export of a merged module, or a trampoline of the shim."""
    if isinstance(item, c.Builtin):
        return item
    instance = wiring.instances[item.instance]
    if isinstance(instance, c.Bag):
        sort, index = instance.items[item.name]
        return resolve(wiring, roles, wiring.spaces[sort][index])
    if item.instance == roles.shim and item.name in wiring.instances[roles.bag].items:
        sort, index = wiring.instances[roles.bag].items[item.name]
        behind = wiring.spaces[sort][index]
        if sort == c.FUNC and isinstance(behind, c.Exported):
            return resolve(wiring, roles, behind)
    return item


def kept(wiring, roles):
    """The exports that the component itself refers to."""
    names = set()
    for kind, part in wiring.parts:
        if kind == c.CANON:
            canon, _ = part
            if canon.code == c.LIFT:
                names.add(main_name(wiring, roles, c.FUNC, canon.function))
            for option, index in canon.options:
                if index is not None:
                    names.add(main_name(wiring, roles, c.MEMORY if option == c.OPTION_MEMORY else c.FUNC, index))
    return names


def main_name(wiring, roles, sort, index):
    item = resolve(wiring, roles, wiring.spaces[sort][index])
    return f"i{item.instance}:{item.name}"
