"""The component around the merged module: what was there before and after the core modules, with every index put right."""

import component as c
import wasm
from roles import main_name


class Wrapper:
    """Writes the component anew: its types, imports and exports as they were, and three core modules in place of all."""

    def __init__(self, wiring, roles):
        self.wiring, self.roles = wiring, roles
        self.out = []
        self.functions = self.instances = 0
        # Index of a host function in the old component -> in the new one; of a main module's export -> its alias.
        self.builtins, self.aliases = {}, {}
        self.main = None

    def add(self, kind, item):
        self.out.append((kind, wasm.vector([item])))

    def instance(self, item):
        self.add(c.CORE_INSTANCE, item)
        self.instances += 1
        return self.instances - 1

    def alias(self, sort, instance, name):
        self.add(c.ALIAS, bytes([0, sort, 1]) + wasm.unsigned(instance) + wasm.name(name))

    def function(self, instance, name):
        if (instance, name) not in self.aliases:
            self.alias(c.FUNC, instance, name)
            self.aliases[instance, name] = self.functions
            self.functions += 1
        return self.aliases[instance, name]

    def start_main(self):
        """As late as its imports allow, and before the first function that needs its memory."""
        if self.main is not None:
            return
        missing = self.roles.builtins - self.builtins.keys()
        assert not missing, f"host functions {missing} are defined only after the memory that others need"
        items = (wasm.name(str(old)) + b"\0" + wasm.unsigned(self.builtins[old]) for old in sorted(self.roles.builtins))
        host = self.instance(b"\1" + wasm.vector(items))
        given = [wasm.name(name) + b"\x12" + wasm.unsigned(at) for name, at in (("host", host), ("shim", 0))]
        self.main = self.instance(b"\0" + wasm.unsigned(1) + wasm.vector(given))
        (memory,) = {main_name(self.wiring, self.roles, c.MEMORY, i) for i in range(len(self.wiring.spaces[c.MEMORY]))}
        self.alias(c.MEMORY, self.main, memory)

    def canon(self, canon, builtin):
        if canon.code == c.LIFT or canon.uses_memory():
            self.start_main()

        def index_of(kind, index):
            if kind == c.OPTION_MEMORY:
                return 0
            return self.function(self.main, main_name(self.wiring, self.roles, c.FUNC, index))

        for kind, index in canon.options:
            if index is not None:
                # Aliases come before what refers to them.
                index_of(kind, index)
        function = canon.function
        if canon.code == c.LIFT:
            function = self.function(self.main, main_name(self.wiring, self.roles, c.FUNC, function))
        self.add(c.CANON, c.write_canon(canon, function, index_of))
        if builtin is not None:
            self.builtins[builtin.index] = self.functions
            self.functions += 1

    def fixup(self):
        """Fills the shim's table. Where a trampoline is used no more, it is given itself: of the right type, and never called."""
        entries = []
        self.alias(c.TABLE, 0, "$imports")
        for name, (sort, index) in self.wiring.instances[self.roles.bag].items.items():
            if sort == c.TABLE:
                entries.append(wasm.name(name) + bytes([c.TABLE]) + wasm.unsigned(0))
                continue
            item = self.wiring.spaces[sort][index]
            function = self.builtins[item.index] if isinstance(item, c.Builtin) else self.function(0, name)
            entries.append(wasm.name(name) + b"\0" + wasm.unsigned(function))
        bag = self.instance(b"\1" + wasm.vector(entries))
        self.instance(b"\0" + wasm.unsigned(2) + wasm.vector([wasm.name("") + b"\x12" + wasm.unsigned(bag)]))


def wrapped(wiring, roles, main):
    wrapper = Wrapper(wiring, roles)
    module_of = {role: wiring.modules[wiring.instances[role].module] for role in (roles.shim, roles.fixup)}
    modules = [wasm.without_custom(module_of[roles.shim]), main, wasm.without_custom(module_of[roles.fixup])]
    for kind, part in wiring.parts:
        if kind == c.CORE_MODULE:
            wrapper.out += [(c.CORE_MODULE, module) for module in modules]
            modules = []
        elif kind == c.CORE_INSTANCE:
            if part == roles.shim:
                assert wrapper.instance(b"\0" + wasm.unsigned(0) + wasm.vector([])) == 0
            elif part == roles.fixup:
                wrapper.fixup()
        elif kind == c.ALIAS:
            raw, core = part
            if core is None:
                wrapper.add(kind, raw)
        elif kind == c.CANON:
            wrapper.canon(*part)
        else:
            wrapper.out.append((kind, part))
    return wasm.join(wiring.header, wrapper.out)


def without_init(wiring):
    """Leaves out the export `exports`, by which componentize-py started the interpreter. It is the last but one, and the last moves up."""
    lifts = [at for at, (kind, part) in enumerate(wiring.parts) if kind == c.CANON and part[0].code == c.LIFT]
    groups = [wiring.parts[at : at + 4] for at in lifts]
    assert [[kind for kind, _ in group] for group in groups] == [[c.CANON, c.COMPONENT, c.INSTANCE, c.EXPORT]] * 2
    assert len(wiring.parts) == lifts[1] + 4 and b"exports" in groups[0][3][1]

    # The component that renames the lifted function was the second, and becomes the first; the function moves up by one.
    reader = wasm.Reader(groups[1][2][1])
    head = [reader.unsigned(), reader.byte(), reader.unsigned(), reader.unsigned()]
    assert head == [1, 0, 1, 1], "one instance of component 1 with one argument"
    argument, sort, function = reader.name(), reader.byte(), reader.unsigned()
    assert sort == 1 and reader.done()
    instance = wasm.vector([b"\0" + wasm.unsigned(0) + wasm.vector([wasm.name(argument) + b"\1" + wasm.unsigned(function - 1)])])

    # Of the component instances go two: the one that was made, and the one that its export made.
    reader = wasm.Reader(groups[1][3][1])
    assert [reader.unsigned(), reader.byte()] == [1, 0]
    name, sort, exported = reader.name(), reader.byte(), reader.unsigned()
    assert sort == 5 and reader.byte() == 0 and reader.done()
    export = wasm.vector([b"\0" + wasm.name(name) + b"\5" + wasm.unsigned(exported - 2) + b"\0"])

    tail = [wiring.parts[lifts[1]], groups[1][1], (c.INSTANCE, instance), (c.EXPORT, export)]
    wiring.parts = wiring.parts[: lifts[0]] + wiring.parts[lifts[0] + 4 : lifts[1]] + tail
    return wiring
