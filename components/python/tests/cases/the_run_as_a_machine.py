# sandbox: the figures are those of the run
import mmap
import os
import pathlib
import resource
import shutil
import sys
import tarfile
import time

import psutil

MIB = 1 << 20
print([limit // MIB for limit in resource.getrlimit(resource.RLIMIT_AS)], resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CPU))
print([limit // MIB for limit in resource.getrlimit(resource.RLIMIT_FSIZE)], resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_STACK)[0] // MIB)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(16 * 1024 < usage.ru_maxrss < 256 * 1024, usage.ru_utime >= 0, usage.ru_stime, usage.__match_args__[:3], resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
for attempt in (
    lambda: resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)),
    lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096)),
    lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    lambda: resource.setrlimit(resource.RLIMIT_AS, (-5, 5)),
    lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 64, 1 << 64)),
    lambda: resource.getrlimit(99),
    lambda: resource.setrlimit(resource.RLIMIT_AS, (1, 2, 3)),
):
    try:
        print(attempt())
    except (OverflowError, ValueError) as error:
        print(error)

memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
print(memory // MIB, 0 < os.sysconf("SC_AVPHYS_PAGES") < os.sysconf("SC_PHYS_PAGES"), resource.getpagesize() == mmap.PAGESIZE == os.sysconf("SC_PAGESIZE") == os.sysconf(os.sysconf_names["SC_PAGESIZE"]))
print(pathlib.Path(__file__).owner(), pathlib.Path(__file__).group(), tarfile.TarFile("a.tar", "w").gettarinfo(__file__).uname)
memory = psutil.virtual_memory()
print(memory.total // MIB, 0 < memory.used < memory.total, memory.available == memory.total - memory.used, 0 < memory.percent < 100, psutil.swap_memory().total)
block = bytearray(32 * MIB)
print(psutil.virtual_memory().used - memory.used >= 32 * MIB, len(block) // MIB)
disk = psutil.disk_usage("/")
print(disk.total // MIB, disk.used, disk.percent, shutil.disk_usage("/").total // MIB)
with open("large", "wb") as file:
    file.write(bytes(MIB))
print(psutil.disk_usage(".").used // MIB, [part.mountpoint for part in psutil.disk_partitions()])
print(psutil.cpu_count(), psutil.cpu_count(logical=False), psutil.cpu_percent(), 0 <= psutil.cpu_percent(interval=0.01) <= 100, psutil.getloadavg())
print(psutil.boot_time() <= time.time(), psutil.cpu_times().user >= 0, psutil.users(), psutil.net_io_counters().bytes_sent)

own = psutil.Process()
print(own.pid == os.getpid(), own.name(), own.exe(), own.cmdline()[0], own.cwd(), own.status(), own.username(), own.num_threads(), own.ppid())
info = own.memory_info()
print(info.rss == info.vms > 32 * MIB, 0 < own.memory_percent() < 100, own.memory_full_info().uss == info.rss, own.is_running(), own.children())
with own.oneshot():
    print(own.create_time() <= time.time(), own.cpu_percent(), own.environ() == dict(os.environ), sorted(own.as_dict(["pid", "name", "open_files"])))
print([process.info for process in psutil.process_iter(["pid", "name"])], psutil.pids(), psutil.pid_exists(2), psutil.pid_exists(99))
print(psutil.RLIMIT_NOFILE, own.rlimit(psutil.RLIMIT_NOFILE), psutil.STATUS_IDLE, psutil.CONN_CLOSE_WAIT)
for attempt in (lambda: psutil.Process(99), own.open_files, own.memory_maps, own.suspend, lambda: own.as_dict("pid"), lambda: psutil.Process(1).cmdline(), lambda: psutil.Process(-1)):
    try:
        attempt()
    except (psutil.Error, TypeError, ValueError) as error:
        print(type(error).__name__, error)
try:
    psutil.win_service_iter()
except AttributeError as error:
    print(error)

import subprocess

child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print([one.pid == child.pid for one in own.children()], psutil.pid_exists(child.pid), psutil.Process(child.pid).status())
child.communicate(b"\n")
print(own.children(), psutil.pid_exists(child.pid), psutil.__version__)
