"""The command line of python3, and how a program ends."""

import atexit
import builtins
import gc
import io
import linecache
import logging
import os
import posix
import runpy
import stat
import sys
import threading
import types
import warnings
import weakref
from importlib.machinery import BuiltinImporter, SourceFileLoader
from multiprocessing import util

# Here, at the build: the module that componentize-py made is in the image, and in no folder afterwards.
from wit_world.imports import exit

from . import compiled, fresh, installers, stdlib, system, waits

USAGE = """usage: python3 [option] ... [-c cmd | -m mod | file | -] [arg] ...
Options:
-c cmd : program passed in as string (terminates option list)
-m mod : run library module as a script (terminates option list)
-W arg : warning control; arg is action:message:category:module:lineno
-V     : print the Python version number and exit (also --version)
-h     : print this help message and exit (also -? or --help)
Accepted and without effect: -b -B -d -E -i -I -O -OO -P -q -R -s -S -u -v -x -X arg
"""

# What python3 has imported before it comes to a script: a script's neighbours of these names are never seen.
IMPORTED_FIRST = frozenset(sys.stdlib_module_names).intersection(
    """__future__ _abc _codecs _collections_abc _io _sitebuiltins _stat abc builtins codecs encodings errno genericpath io marshal ntpath os
    posix posixpath site stat sys time zipimport""".split()
)


class UsageError(Exception):
    pass


def run():
    fresh.start()
    system.open_streams()
    name, *arguments = sys.argv or ["python3"]
    if os.path.basename(name) in ("pip", "pip3"):
        arguments = ["-m", "pip", *arguments]
    code = end(lambda: command(arguments))
    if code:
        exit.exit_with_code(code)


def command(arguments):
    """Runs what the command line asks for."""
    sys.warnoptions[:] = [option for option in os.environ.get("PYTHONWARNINGS", "").split(",") if option]
    try:
        what, arguments = options(arguments)
    except UsageError as error:
        usage, *_ = USAGE.splitlines()
        sys.stderr.write(f"{error}\n{usage}\nTry `python3 -h' for more information.\n")
        raise SystemExit(2) from None
    warnings._processoptions(sys.warnoptions)
    library = [*folders("PYTHONPATH"), os.path.dirname(os.__file__)]
    library += filter(os.path.exists, [*folders("SKILLHOST_SITE_PACKAGES"), PACKAGES])
    sys.path_importer_cache.clear()
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    module.__loader__ = BuiltinImporter
    if what == "-h":
        sys.stdout.write(USAGE)
    elif what == "-V":
        print("Python", sys.version.split()[0])
    elif what == "-c":
        source, *rest = arguments
        sys.argv[:] = ["-c", *rest]
        sys.path[:] = ["", *library]
        # The last line may lack its end, and some lines that are no statement yet are completed by it.
        execute(module, source + "\n", "<string>")
    elif what == "-m":
        name, *rest = arguments
        sys.argv[:] = ["-m", *rest]
        sys.path[:] = [os.getcwd(), *library]
        if name in installers.PROGRAMS:
            raise SystemExit(installers.PROGRAMS[name](rest))
        neighbours(os.getcwd())
        runpy._run_module_as_main(name)
    elif what == "-":
        sys.argv[:] = arguments or [""]
        sys.path[:] = ["", *library]
        execute(module, sys.stdin.buffer.read(), "<stdin>")
    else:
        script, *rest = arguments
        sys.argv[:] = [script, *rest]
        run_file(module, script, library)


# The packages that the host brings.
PACKAGES = "/usr/lib/python3.14/site-packages"


def folders(variable):
    return list(filter(None, os.environ.get(variable, "").split(":")))


def options(arguments):
    """Splits a command line: what runs ('-c', '-m', '-', 'file', '-h', '-V'), and its arguments with the script or module first."""
    arguments = list(arguments)
    while arguments:
        argument = arguments[0]
        if argument == "-":
            return "-", arguments
        if not argument.startswith("-"):
            return "file", arguments
        del arguments[0]
        if argument == "--":
            break
        if argument in ("--version", "--help"):
            return {"--version": "-V", "--help": "-h"}[argument], []
        if argument.startswith("--"):
            raise UsageError(f"unknown option {argument}")
        letters = argument[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in "cmWX":
                if not letters and not arguments:
                    raise UsageError(f"Argument expected for the -{letter} option")
                value = letters or arguments.pop(0)
                letters = ""
                if letter in "cm":
                    return "-" + letter, [value, *arguments]
                if letter == "W":
                    sys.warnoptions.append(value)
                elif letter == "X":
                    name, given, value = value.partition("=")
                    sys._xoptions[name] = value if given else True
            elif letter in "hV?":
                return {"V": "-V"}.get(letter, "-h"), []
            elif letter not in "bBdEiIOPqRsSuvx":
                raise UsageError(f"Unknown option: -{letter}")
    return ("file", arguments) if arguments else ("-", [])


def run_file(module, script, library):
    path = os.path.abspath(script)
    folder = os.path.dirname(path)
    # What `..` leads to is for the file system to say.
    known = None if ".." in script else compiled.script(path)
    if known:
        code, beside = known
        stdlib.shadow(beside, IMPORTED_FIRST)
    else:
        try:
            source, followed = content(script)
        except OSError as error:
            if os.path.isdir(script):
                sys.path[:] = [script, *library]
                return runpy._run_module_as_main("__main__", False)
            sys.stderr.write(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}\n")
            raise SystemExit(2) from None
        if source.startswith(b"PK\x03\x04"):
            sys.path[:] = [script, *library]
            return runpy._run_module_as_main("__main__", False)
        if followed or ".." in script or not is_direct(folder):
            folder = os.path.dirname(os.path.realpath(script))
        neighbours(folder)
        code = compile(source, path, "exec", dont_inherit=True)
    sys.path[:] = [folder, *library]
    module.__file__, module.__cached__ = path, None
    module.__loader__ = SourceFileLoader("__main__", path)
    exec(code, module.__dict__)


def content(script):
    """A script's bytes, and whether its name may be a link's."""
    try:
        number, followed = posix.open(script, posix.O_RDONLY | posix.O_NOFOLLOW), False
    except OSError:
        number, followed = posix.open(script, posix.O_RDONLY), True
    try:
        pieces = []
        while piece := posix.read(number, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces), followed
    finally:
        posix.close(number)


def is_direct(path):
    """Whether an absolute path leads over no link. Nearly all do not, and `realpath` takes its time to find that out."""
    try:
        # What lies in the root is mounted, and no link.
        while path.count("/") > 1:
            if stat.S_ISLNK(posix.lstat(path).st_mode):
                return False
            path = path[: path.rindex("/")]
    except OSError:
        return False
    return True


def neighbours(folder):
    try:
        stdlib.shadow(posix.listdir(folder), IMPORTED_FIRST)
    except OSError:
        # The folder may be unreadable where the script in it is not.
        pass


def execute(module, source, name):
    """Runs source that is in no file."""
    code = compile(source, name, "exec", dont_inherit=True)
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    linecache._register_code(code, text, name)
    exec(code, module.__dict__)


def end(program):
    """Runs a program to its very end, and returns its exit code: threads, what it registered with atexit, its objects, its streams."""
    code = guarded(program)
    if isinstance(code, system.Exit):
        return code.args[0] & 0xFF
    for last in (threading._shutdown, exits, waits.finish, let_go, finalizers):
        result = guarded(last)
        if isinstance(result, system.Exit):
            return result.args[0] & 0xFF
    for stream in (sys.stdout, sys.stderr, sys.__stdout__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except OSError:
            # As python3: the output could not be written, whatever the program thinks.
            code = code or 120
    return code


def exits():
    """What the program registered with atexit, then what the library does at exit, where there is something to do."""
    atexit._run_exitfuncs()
    if util._finalizer_registry or util._logger:
        util._exit_function()
    if logging._handlerList != HANDLERS:
        logging.shutdown()


def finalizers():
    # That they have been run is noted in the class, which the interpreter then has to learn anew.
    if weakref.finalize._registry:
        weakref.finalize._exitfunc()


# The log handlers of the image: none that holds anything back.
HANDLERS = []
# The modules of the memory image, and how many of them stand together at most among the program's own, as those that it imported anew.
OURS, AMONG = set(), 8
FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


def newest(modules):
    """The names of the program's modules, the last first. Those of the image stand before them, and are not looked at: there are hundreds."""
    yield "__main__"
    met = 0
    for name in reversed(modules):
        if name not in OURS:
            met = 0
            if name != "__main__":
                yield name
        elif (met := met + 1) > AMONG:
            return


def let_go():
    """As the interpreter does at its end, for the modules of the program: open files are flushed, and `__del__` is called."""
    system.ENDING = True
    flush_stdout()
    # Without those of the image.
    objects = gc.get_objects()
    kinds = set(map(type, objects)) - PLAIN
    if not kinds:
        return
    if any(issubclass(kind, FILES) for kind in kinds):
        # Among objects that go together, nothing says that a file goes before what it writes to.
        for file in [file for file in objects if issubclass(type(file), FILES)]:
            try:
                file.flush()
            except (OSError, ValueError):
                # Closed already, or its folder is full: as where nobody closed it.
                pass
    single = tuple(kind for kind in kinds if issubclass(kind, (type, weakref.ref)))
    if any(map(tells, kinds)) or single and any(tells(item) for item in objects if isinstance(item, single)):
        # What is held here stays.
        del objects, kinds
        clear()


# Kinds of objects that go unnoticed, and are in every program: the others are looked at one by one.
PLAIN = {dict, list, tuple, set, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CellType, types.ModuleType}
PLAIN |= {types.FrameType, SourceFileLoader}
# These are flushed when it comes to that; a class of the program's own may do more.
SILENT = {io.FileIO, io.BufferedReader, *FILES}


def tells(item):
    """Whether somebody is told when an object of this class goes, or that for which this reference is."""
    if isinstance(item, weakref.ref):
        # A built-in one keeps the caches of abstract classes.
        return not isinstance(item.__callback__, (types.NoneType, types.BuiltinFunctionType))
    return hasattr(item, "__del__") and item not in SILENT


def clear():
    """Lets the program's objects go, those in cycles too."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    packages = tuple([*folders("SKILLHOST_SITE_PACKAGES"), PACKAGES])
    own = [name for name in newest(sys.modules) if is_own(sys.modules.get(name), packages)][::-1]
    left = [weakref.ref(sys.modules.pop(name)) for name in own]
    gc.collect()
    for module in filter(None, (reference() for reference in reversed(left))):
        content = vars(module)
        names = sorted(content, key=lambda name: not (name.startswith("_") and not name.startswith("__")))
        content.update((name, None) for name in names if name != "__builtins__")
    gc.collect()


def is_own(module, packages):
    """Whether a module is the program's, and not of a package. Those are left as they are: the classes that some of them make in the memory
    of CPython 3.14.0 do not outlive their module well, and what they leave open is flushed all the same."""
    if not isinstance(module, types.ModuleType):
        return False
    file = vars(module).get("__file__")
    return not (isinstance(file, str) and file.startswith(packages))


def guarded(program):
    try:
        program()
    except SystemExit as stop:
        return exit_code(stop.code)
    except system.Exit as stop:
        return stop
    except BaseException as error:
        report(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def exit_code(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    flush_stdout()
    print(code, file=sys.stderr)
    return 1


def flush_stdout():
    try:
        sys.stdout.flush()
    except Exception:
        # Told at the end, in the exit code.
        pass


def report(error):
    """Prints a traceback through the program's own hook, if it has one, without the frames of this package."""
    flush_stdout()
    chain, seen = [error], set()
    while chain:
        link = chain.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            link.__traceback__ = without_ours(link.__traceback__)
            chain += [link.__cause__, link.__context__]
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as broken:
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(broken), broken, without_ours(broken.__traceback__))
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def without_ours(traceback):
    while traceback is not None and (is_ours(traceback) or traceback.tb_frame.f_code.co_filename == runpy.__file__):
        traceback = traceback.tb_next
    at = traceback
    while at is not None:
        while at.tb_next is not None and is_ours(at.tb_next):
            at.tb_next = at.tb_next.tb_next
        at = at.tb_next
    return traceback


FOLDER = os.path.dirname(__file__) + "/"


def is_ours(traceback):
    return traceback.tb_frame.f_code.co_filename.startswith(FOLDER)
