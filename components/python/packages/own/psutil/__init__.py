"""The common calls of psutil that read, for a sandbox. It is no copy of psutil: it shares its names, not its code.

The machine that it describes is the run: its memory is the limit and what the run's programs use of it, its disk what files may grow by, its
processor one. Its processes are this program and those that it has started.
"""

import collections
import os
import signal
import sys
import time

from _skillhost import programs as _programs
from _skillhost import system as _system
from wit_world.imports import usage as _usage

__version__ = "7.1.3+skillhost"
version_info = (7, 1, 3)
POSIX = LINUX = True
WINDOWS = MACOS = OSX = FREEBSD = OPENBSD = NETBSD = BSD = SUNOS = AIX = False
STATUS_RUNNING, STATUS_SLEEPING, STATUS_STOPPED, STATUS_ZOMBIE, STATUS_DEAD = "running", "sleeping", "stopped", "zombie", "dead"
STATUS_DISK_SLEEP, STATUS_IDLE, STATUS_LOCKED, STATUS_PARKED = "disk-sleep", "idle", "locked", "parked"
STATUS_TRACING_STOP, STATUS_WAITING, STATUS_WAKING = "tracing-stop", "waiting", "waking"
CONN_ESTABLISHED, CONN_SYN_SENT, CONN_SYN_RECV, CONN_FIN_WAIT1, CONN_FIN_WAIT2 = "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2"
CONN_TIME_WAIT, CONN_CLOSE, CONN_CLOSE_WAIT, CONN_LAST_ACK = "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK"
CONN_LISTEN, CONN_CLOSING, CONN_NONE = "LISTEN", "CLOSING", "NONE"
POWER_TIME_UNKNOWN, POWER_TIME_UNLIMITED = -1, -2
AF_LINK = 17


def _limits():
    """The constants of the module `resource`."""
    import resource

    return {name: value for name, value in vars(resource).items() if name.startswith("RLIM")}


globals().update(_limits())


class Error(Exception):
    def __init__(self, msg=""):
        super().__init__(msg)
        self.msg = msg

    def __str__(self):
        return self.msg


class NoSuchProcess(Error):
    def __init__(self, pid, name=None, msg=None):
        super().__init__(msg or f"process no longer exists (pid={pid})")
        self.pid, self.name = pid, name


class ZombieProcess(NoSuchProcess):
    pass


class AccessDenied(Error):
    def __init__(self, pid=None, name=None, msg=None):
        super().__init__(msg or f"not available in a sandbox (pid={pid})")
        self.pid, self.name = pid, name


class TimeoutExpired(Error):
    def __init__(self, seconds, pid=None, name=None):
        super().__init__(f"timeout after {seconds} seconds (pid={pid})")
        self.seconds, self.pid, self.name = seconds, pid, name


def _record(name, fields):
    return collections.namedtuple(name, fields, module=__name__)


svmem = _record("svmem", "total available percent used free active inactive buffers cached shared slab")
sswap = _record("sswap", "total used free percent sin sout")
sdiskusage = _record("sdiskusage", "total used free percent")
sdiskpart = _record("sdiskpart", "device mountpoint fstype opts")
scputimes = _record("scputimes", "user nice system idle iowait irq softirq steal guest guest_nice")
scpustats = _record("scpustats", "ctx_switches interrupts soft_interrupts syscalls")
snetio = _record("snetio", "bytes_sent bytes_recv packets_sent packets_recv errin errout dropin dropout")
pmem = _record("pmem", "rss vms shared text lib data dirty")
pfullmem = _record("pfullmem", "rss vms shared text lib data dirty uss pss swap")
pcputimes = _record("pcputimes", "user system children_user children_system iowait")
puids = _record("puids", "real effective saved")
pctxsw = _record("pctxsw", "voluntary involuntary")


def _percent(part, whole):
    return round(100 * part / whole, 1) if whole else 0.0


def cpu_count(logical=True):
    return 1


def cpu_freq(percpu=False):
    return [] if percpu else None


def cpu_stats():
    return scpustats(0, 0, 0, 0)


def getloadavg():
    return os.getloadavg()


def cpu_times(percpu=False):
    """The processor time of this program; what is left of its wall time is idle."""
    used = time.process_time()
    times = scputimes(used, 0.0, 0.0, max(0.0, time.monotonic() - _system.STARTED - used), *[0.0] * 6)
    return [times] if percpu else times


class _Share:
    """The share of the processor since the last call."""

    def __init__(self):
        self.last = None

    def since(self, interval):
        if interval is not None and interval < 0:
            raise ValueError(f"interval is not positive (got {interval})")
        if interval:
            self.last = time.monotonic(), time.process_time()
            time.sleep(interval)
        now = time.monotonic(), time.process_time()
        last, self.last = self.last, now
        if last is None or now[0] <= last[0]:
            return 0.0
        return min(100.0, _percent(now[1] - last[1], now[0] - last[0]))


_SYSTEM = _Share()


def cpu_percent(interval=None, percpu=False):
    share = _SYSTEM.since(interval)
    return [share] if percpu else share


def cpu_times_percent(interval=None, percpu=False):
    share = _SYSTEM.since(interval)
    times = scputimes(share, 0.0, 0.0, round(100 - share, 1), *[0.0] * 6)
    return [times] if percpu else times


def virtual_memory():
    figures = _usage.get()
    total, used = figures.memory_limit, min(figures.memory, figures.memory_limit)
    return svmem(total, total - used, _percent(used, total), used, total - used, used, 0, 0, 0, 0, 0)


def swap_memory():
    return sswap(0, 0, 0, 0.0, 0, 0)


def disk_usage(path):
    os.stat(path)
    figures = _usage.get()
    used = min(figures.disk, figures.disk_limit)
    return sdiskusage(figures.disk_limit, used, figures.disk_limit - used, _percent(used, figures.disk_limit))


def disk_partitions(all=False):
    return [sdiskpart("sandbox", "/", "sandbox", "rw")]


def disk_io_counters(perdisk=False, nowrap=True):
    return {} if perdisk else None


def net_io_counters(pernic=False, nowrap=True):
    return {} if pernic else snetio(0, 0, 0, 0, 0, 0, 0, 0)


def net_connections(kind="inet"):
    return []


def net_if_addrs():
    return {}


def net_if_stats():
    return {}


def sensors_temperatures(fahrenheit=False):
    return {}


def sensors_fans():
    return {}


def sensors_battery():
    return None


def users():
    return []


def boot_time():
    """The start of this program."""
    return time.time() - (time.monotonic() - _system.STARTED)


def pids():
    return [1, *sorted({os.getpid(), *_programs.CHILDREN})]


def pid_exists(pid):
    return pid in pids()


def process_iter(attrs=None, ad_value=None):
    for pid in pids()[1:]:
        process = Process(pid)
        if attrs is not None:
            process.info = process.as_dict(attrs, ad_value)
        yield process


def wait_procs(procs, timeout=None, callback=None):
    until = None if timeout is None else time.monotonic() + timeout
    gone, alive = [], []
    for process in procs:
        try:
            process.returncode = process.wait(None if until is None else max(0, until - time.monotonic()))
        except TimeoutExpired:
            alive.append(process)
            continue
        gone.append(process)
        if callback is not None:
            callback(process)
    return gone, alive


# What `as_dict` asks for.
_ATTRIBUTES = """cmdline connections cpu_num cpu_percent cpu_times create_time cwd environ exe gids io_counters ionice memory_full_info memory_info
memory_percent name net_connections nice num_ctx_switches num_fds num_threads open_files pid ppid status terminal threads uids username""".split()


class Process:
    def __init__(self, pid=None):
        self._pid = os.getpid() if pid is None else pid
        if not isinstance(self._pid, int):
            raise TypeError(f"pid must be an integer (got {pid!r})")
        if self._pid < 0:
            raise ValueError(f"pid must be a positive integer (got {pid})")
        if self._pid not in pids():
            raise NoSuchProcess(self._pid, msg=f"process PID not found (pid={self._pid})")
        self._share = _Share()

    pid = property(lambda self: self._pid)

    def __repr__(self):
        return f"psutil.Process(pid={self._pid}, status={self.status()!r})"

    def __eq__(self, other):
        return isinstance(other, Process) and self._pid == other._pid

    def __hash__(self):
        return hash(self._pid)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def oneshot(self):
        return self

    def _own(self):
        """Other programs do not tell what they do."""
        if self._pid == os.getpid():
            return
        if not self.is_running():
            raise NoSuchProcess(self._pid)
        raise AccessDenied(self._pid)

    def is_running(self):
        return self._pid in pids()

    def status(self):
        return STATUS_RUNNING if self._pid == os.getpid() else STATUS_SLEEPING

    def ppid(self):
        return 0 if self._pid == 1 else 1 if self._pid == os.getpid() else os.getpid()

    def parent(self):
        return Process(self.ppid()) if self.ppid() else None

    def parents(self):
        above = self.parent()
        return [] if above is None else [above, *above.parents()]

    def children(self, recursive=False):
        return [Process(pid) for pid in sorted(_programs.CHILDREN)] if self._pid == os.getpid() else []

    def name(self):
        self._own()
        return os.path.basename(sys.executable)

    def exe(self):
        self._own()
        return sys.executable

    def cmdline(self):
        self._own()
        return [sys.executable, *sys.orig_argv[1:]]

    def cwd(self):
        self._own()
        return os.getcwd()

    def environ(self):
        self._own()
        return dict(os.environ)

    def username(self):
        return "user"

    def uids(self):
        return puids(1000, 1000, 1000)

    gids = uids

    def terminal(self):
        return None

    def nice(self, value=None):
        if value is not None:
            raise AccessDenied(self._pid)
        return 0

    def ionice(self, ioclass=None, value=None):
        raise AccessDenied(self._pid)

    def io_counters(self):
        raise AccessDenied(self._pid)

    def create_time(self):
        self._own()
        return boot_time()

    def cpu_num(self):
        return 0

    def cpu_affinity(self, cpus=None):
        return [0]

    def cpu_times(self):
        self._own()
        return pcputimes(time.process_time(), 0.0, 0.0, 0.0, 0.0)

    def cpu_percent(self, interval=None):
        self._own()
        return self._share.since(interval)

    def memory_info(self):
        self._own()
        size = _usage.get().own_memory
        return pmem(size, size, 0, 0, 0, size, 0)

    def memory_full_info(self):
        info = self.memory_info()
        return pfullmem(*info, info.rss, info.rss, 0)

    def memory_percent(self, memtype="rss"):
        return 100 * getattr(self.memory_full_info(), memtype) / _usage.get().memory_limit

    def num_threads(self):
        return 1

    def threads(self):
        return []

    def num_ctx_switches(self):
        return pctxsw(0, 0)

    def num_fds(self):
        self._own()
        return sum(_is_open(number) for number in range(256))

    def open_files(self):
        raise AccessDenied(self._pid)

    def memory_maps(self, grouped=True):
        raise AccessDenied(self._pid)

    def suspend(self):
        raise AccessDenied(self._pid)

    def resume(self):
        raise AccessDenied(self._pid)

    def net_connections(self, kind="inet"):
        return []

    connections = net_connections

    def rlimit(self, resource, limits=None):
        import resource as module

        self._own()
        return module.prlimit(self._pid, resource, limits)

    def as_dict(self, attrs=None, ad_value=None):
        if attrs is not None and not isinstance(attrs, (list, tuple, set, frozenset)):
            raise TypeError(f"invalid attrs type {type(attrs)}")
        found = {}
        for name in _ATTRIBUTES if attrs is None else attrs:
            if name not in _ATTRIBUTES:
                raise ValueError(f"invalid attr name {name!r}")
            try:
                value = getattr(self, name)
                found[name] = value() if callable(value) else value
            except AccessDenied:
                found[name] = ad_value
        return found

    def send_signal(self, sig):
        try:
            os.kill(self._pid, sig)
        except ProcessLookupError:
            raise NoSuchProcess(self._pid) from None

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout=None):
        child = _programs.CHILDREN.get(self._pid)
        if child is None:
            return None
        status = child.wait(timeout)
        if status is None:
            raise TimeoutExpired(timeout, self._pid)
        return os.waitstatus_to_exitcode(status)


def _is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"the psutil of a sandbox has no {name}: it has the common calls that read")
