"""Runs one module of CPython's tests, inside the sandbox, and notes each test's outcome in `results.jsonl` as it comes."""

import fnmatch
import json
import os
import subprocess
import sys
import traceback
import unittest

NAME, *NOT_RUN = sys.argv[1:]
NOT_RUN += json.load(open(os.path.join(os.path.dirname(__file__), "../not-run.json")))
RESULTS = open("results.jsonl", "w", buffering=1, encoding="utf-8", errors="backslashreplace")


def note(**record):
    RESULTS.write(json.dumps(record) + "\n")


def name_of(test):
    return test.id().removeprefix("test.")


class Result(unittest.TestResult):
    """Each test once, whatever became of its subtests."""

    problem = None

    def startTest(self, test):
        super().startTest(test)
        self.problem, self.skipping = None, None
        note(start=name_of(test))

    def stopTest(self, test):
        super().stopTest(test)
        if self.problem is not None:
            note(id=name_of(test), outcome="failed", why=self.problem)
        elif self.skipping is not None:
            note(id=name_of(test), outcome="skipped", why=self.skipping)
        else:
            note(id=name_of(test), outcome="passed")
        self.failures.clear()
        self.errors.clear()

    def addSkip(self, test, reason):
        if isinstance(test, unittest.TestCase):
            self.skipping = reason
        else:
            note(id=name_of(test), outcome="skipped", why=reason)

    def addError(self, test, error):
        text = "".join(traceback.format_exception(*error))[-2000:]
        if isinstance(test, unittest.TestCase):
            self.problem = self.problem or text
        else:
            # A class or a module that could not be set up: none of its tests ran.
            note(id=name_of(test), outcome="failed", why=text)

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)

    def addUnexpectedSuccess(self, test):
        self.problem = "passed, and was expected to fail"


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def leave_out(suite):
    """Takes what is not to be run out of a suite, in place: its classes and modules are set up as ever."""
    for at, test in enumerate(suite._tests):
        if isinstance(test, unittest.TestSuite):
            leave_out(test)
        elif any(fnmatch.fnmatchcase(name_of(test), glob) for glob in NOT_RUN):
            note(id=name_of(test), outcome="failed", why="not run")
            suite._tests[at] = unittest.TestSuite()


def prepare():
    """What the tests ask their support about the platform: `sys.platform` says linux, and this is not quite that."""
    from test import support
    from test.support import threading_helper

    # asyncio's tests ask for sockets, and most need none.
    support.has_socket_support = "asyncio" in NAME
    support.has_subprocess_support = starts_programs()
    # They would ask modules that are not here; the stack has a limit.
    support.skip_if_unlimited_stack_size = lambda test: test
    support._has_huge_c_stack = lambda depth: False
    # Threads run one after the other here: what tests them has tests of its own, in components/python/tests.
    threading_helper.can_start_thread = False
    support.use_resources = []


def starts_programs():
    try:
        return subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0
    except OSError:
        return False


def main():
    sys.dont_write_bytecode = True
    prepare()
    try:
        suite = unittest.defaultTestLoader.loadTestsFromName("test." + NAME)
    except unittest.SkipTest as skip:
        note(id=NAME, outcome="skipped", why=str(skip))
    else:
        leave_out(suite)
        suite.run(Result())
    note(end=True)


main()
