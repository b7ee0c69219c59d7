"""The command line of python3, and the end of a program."""

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

# Imported at build time: afterwards the module that componentize-py generated exists only in the image.
from componentize_py_types import Err
from wit_world.imports import exit, lines

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

# Modules that python3 imports before any script: files of the same names next to a script are never imported.
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
    """Runs the program that the command line selects."""
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
        # The last line may lack a line end, and some incomplete statements are completed by one.
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


# The packages provided by the host.
PACKAGES = "/usr/lib/python3.14/site-packages"


def folders(variable):
    return list(filter(None, os.environ.get(variable, "").split(":")))


def options(arguments):
    """Splits a command line into the kind of program ('-c', '-m', '-', 'file', '-h', '-V') and its arguments, beginning with the script or
    module.
    """
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
    # Only the file system can resolve `..`.
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
    """Returns the contents of a script, and whether its name may be a link."""
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
    """Whether an absolute path contains no link. Nearly all do not, and `realpath` takes long to find out."""
    try:
        # Folders in the root are mounts, not links.
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
        # The folder may be unreadable even if the script is not.
        pass


def execute(module, source, name):
    """Runs source that is not from a file."""
    code = compile(source, name, "exec", dont_inherit=True)
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    linecache._register_code(code, text, name)
    exec(code, module.__dict__)


def end(program):
    """Runs a program to its end and returns its exit code: including threads, functions registered with atexit, objects and streams."""
    code = guarded(program)
    if isinstance(code, system.Exit):
        return code.args[0] & 0xFF
    for last in (threading._shutdown, exits, waits.finish, let_go, finalizers):
        result = guarded(last)
        if isinstance(result, system.Exit):
            return result.args[0] & 0xFF
    for stream in (sys.stdout, sys.stderr):
        try:
            if is_open(stream):
                stream.flush()
        except Exception:
            # As in python3: the output could not be written, whatever the program's exit code.
            code = 120
    try:
        # A program that has put another stream in its place may have written to it.
        if is_open(sys.__stdout__):
            sys.__stdout__.flush()
        # The streams write to a buffer of the image.
        lines.flush()
    except (Err, OSError):
        # In python3, only `sys.stdout` itself counts.
        if is_open(sys.stdout) and writes_to_stdout(sys.stdout):
            code = 120
    return code


def is_open(stream):
    return stream is not None and not getattr(stream, "closed", False)


def writes_to_stdout(stream):
    try:
        return stream.fileno() == 1
    except Exception:
        return False


def exits():
    """Runs the functions that the program registered with atexit, then those of the library, if they have something to do."""
    atexit._run_exitfuncs()
    if util._finalizer_registry or util._logger:
        util._exit_function()
    if logging._handlerList != HANDLERS:
        logging.shutdown()


def finalizers():
    # The class records that they have run, and the interpreter would have to specialise for it again.
    if weakref.finalize._registry:
        weakref.finalize._exitfunc()


# The log handlers of the image, none of which buffers anything.
HANDLERS = []
# The modules of the image, and the maximum number of them in sequence between the program's own modules, for example after a reload.
OURS, AMONG = set(), 8
FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


def newest(modules):
    """Returns the names of the program's modules, the last first. Those of the image precede them and are skipped: there are hundreds."""
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
    """Does for the program's modules what the interpreter does at its end: flushes open files and calls `__del__`."""
    system.ENDING = True
    flush_stdout()
    # Without the objects of the image.
    objects = gc.get_objects()
    kinds = set(map(type, objects)) - PLAIN
    if not kinds:
        return
    if any(issubclass(kind, FILES) for kind in kinds):
        # Within a group of related objects, nothing guarantees that a file is finalised before the object that it writes to.
        for file in [file for file in objects if issubclass(type(file), FILES)]:
            try:
                file.flush()
            except (OSError, ValueError):
                # The file is closed, or the disk is full: ignored, as for files that nobody closed.
                pass
    single = tuple(kind for kind in kinds if issubclass(kind, (type, weakref.ref)))
    if any(map(tells, kinds)) or single and any(tells(item) for item in objects if isinstance(item, single)):
        # Objects referenced here would stay alive.
        del objects, kinds
        clear()


# Types that occur in every program and whose deletion has no effect; others are checked one by one.
PLAIN = {dict, list, tuple, set, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CellType, types.ModuleType}
PLAIN |= {types.FrameType, SourceFileLoader}
# These are flushed when necessary; a subclass of the program may do more.
SILENT = {io.FileIO, io.BufferedReader, *FILES}


def tells(item):
    """Whether deleting an object of this class, or the target of this reference, has an effect."""
    if isinstance(item, weakref.ref):
        # A built-in callback belongs to the caches of abstract classes.
        return not isinstance(item.__callback__, (types.NoneType, types.BuiltinFunctionType))
    return hasattr(item, "__del__") and item not in SILENT


def clear():
    """Deletes the program's objects, including those in cycles."""
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
    """Whether a module belongs to the program rather than to a package. Packages are left alone: in CPython 3.14.0, some of their classes
    do not survive the deletion of their module, and their open files are flushed anyway.
    """
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
        # Reported at the end, by the exit code.
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
    if isinstance(error, MemoryError):
        note_lack_of_memory()
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as broken:
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(broken), broken, without_ours(broken.__traceback__))
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def note_lack_of_memory():
    """Asks for as much memory as an object can have. The host notes that this exceeds the limit, and explains the limit when the program has
    failed: CPython itself refuses larger objects without asking. The buffer of `read` is not initialised, so the pages are never used.
    """
    try:
        posix.read(-1, sys.maxsize - 64)
    except (MemoryError, OSError):
        # Without a limit below that, it is the descriptor that is refused.
        pass


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
