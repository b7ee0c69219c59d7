"""The modules `pwd` and `grp`, with the accounts of the shell's /etc/passwd and /etc/group."""

import operator
import sys
import types

from . import _native


def install():
    passwd = _native.struct_sequence("pwd.struct_passwd", "pw_name pw_passwd pw_uid pw_gid pw_gecos pw_dir pw_shell", 7)
    group = _native.struct_sequence("grp.struct_group", "gr_name gr_passwd gr_gid gr_mem", 4)
    users = [
        passwd(("root", "x", 0, 0, "root", "/root", "/bin/bash")),
        passwd(("user", "x", 1000, 1000, "user", "/tmp", "/bin/bash")),
        passwd(("nobody", "x", 65534, 65534, "nobody", "/nonexistent", "/usr/sbin/nologin")),
    ]
    groups = [group(("root", "x", 0, [])), group(("user", "x", 1000, [])), group(("nogroup", "x", 65534, []))]
    named, numbered = by_name(users, "getpwnam", "name"), by_number(users, "getpwuid", "uid")
    module("pwd", struct_passwd=passwd, getpwall=lambda: list(users), getpwnam=named, getpwuid=numbered)
    named, numbered = by_name(groups, "getgrnam", "name"), by_number(groups, "getgrgid", "gid")
    module("grp", struct_group=group, getgrall=lambda: list(groups), getgrnam=named, getgrgid=numbered)


def module(name, **members):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(members)


def by_name(entries, function, kind):
    def find(name):
        if not isinstance(name, str):
            raise TypeError(f"{function}() argument must be str, not {type(name).__name__}")
        if "\0" in name:
            raise ValueError("embedded null byte")
        for entry in entries:
            if entry[0] == name:
                return entry
        raise KeyError(f"{function}(): {kind} not found: {name!r}")

    find.__name__ = function
    return find


def by_number(entries, function, kind):
    def find(number):
        try:
            number = operator.index(number)
        except TypeError:
            raise TypeError(f"{kind} should be integer, not {type(number).__name__}") from None
        for entry in entries:
            if entry[2] == number:
                return entry
        raise KeyError(f"{function}(): {kind} not found: {number}")

    find.__name__ = function
    return find
