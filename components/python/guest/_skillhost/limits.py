"""The module `resource`: limits are the run's own, and belong to the host. A program can neither raise nor lower them."""

import operator
import os
import time

from _skillhost import _native
from wit_world.imports import usage as _usage

error = OSError
RLIM_INFINITY = -1
# Linux's numbers.
RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS = range(10)
RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME = range(11, 16)
RLIMIT_OFILE = RLIMIT_NOFILE
RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD = 0, -1, 1
PAGE = 4096

_FIELDS = """ru_utime ru_stime ru_maxrss ru_ixrss ru_idrss ru_isrss ru_minflt ru_majflt ru_nswap ru_inblock ru_oublock ru_msgsnd ru_msgrcv
ru_nsignals ru_nvcsw ru_nivcsw"""
struct_rusage = _native.struct_sequence("resource.struct_rusage", " ".join(_FIELDS.split()), 16)


def getrlimit(resource, /):
    number = _number(resource)
    figures = _usage.get()
    limits = {
        RLIMIT_CPU: -(-figures.timeout_ms // 1000), RLIMIT_FSIZE: figures.disk_limit, RLIMIT_DATA: figures.memory_limit,
        RLIMIT_AS: figures.memory_limit, RLIMIT_RSS: figures.memory_limit, RLIMIT_STACK: figures.own_stack,
        RLIMIT_NPROC: figures.programs_limit, RLIMIT_NOFILE: figures.handles_limit, RLIMIT_CORE: 0, RLIMIT_MEMLOCK: 0,
        RLIMIT_SIGPENDING: 0, RLIMIT_MSGQUEUE: 0, RLIMIT_NICE: 0, RLIMIT_RTPRIO: 0,
    }  # fmt: skip
    limit = limits.get(number, RLIM_INFINITY)
    return limit, limit


def setrlimit(resource, limits, /):
    """Accepts the limits that there are, as a program does that lowers a limit to what it has. Any others raise an error."""
    number = _number(resource)
    limits = tuple(limits)
    if len(limits) != 2:
        raise ValueError("expected a tuple of 2 integers")
    wanted = tuple(operator.index(limit) for limit in limits)
    if any(limit < 0 and limit != RLIM_INFINITY for limit in wanted):
        raise ValueError("Cannot convert negative int")
    if any(limit >= 1 << 64 for limit in wanted):
        raise OverflowError("Python int too large to convert to C rlim_t")
    _, most = getrlimit(number)
    if wanted[1] != RLIM_INFINITY and (wanted[0] == RLIM_INFINITY or wanted[0] > wanted[1]):
        raise ValueError("current limit exceeds maximum limit")
    if most != RLIM_INFINITY and any(limit == RLIM_INFINITY or limit > most for limit in wanted):
        raise ValueError("not allowed to raise maximum limit")
    if wanted != (most, most):
        raise ValueError("a program of a sandbox cannot change its limits: the operator sets them")


def prlimit(pid, resource, limits=None, /):
    if pid not in (0, os.getpid()):
        raise ProcessLookupError(3, "No such process")
    old = getrlimit(resource)
    if limits is not None:
        setrlimit(resource, limits)
    return old


def getrusage(who, /):
    if operator.index(who) not in (RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD):
        raise ValueError("invalid who parameter")
    if who == RUSAGE_CHILDREN:
        return struct_rusage((0.0, 0.0, *[0] * 14))
    # The memory of a program never shrinks, so that it is the largest so far. In KiB, as on Linux.
    return struct_rusage((time.process_time(), 0.0, _usage.get().own_memory >> 10, *[0] * 13))


def getpagesize():
    return PAGE


def _number(resource):
    number = operator.index(resource)
    if not -(1 << 31) <= number < 1 << 31:
        raise OverflowError("Python int too large to convert to C int")
    if not 0 <= number < 16:
        raise ValueError("invalid resource specified")
    return number
