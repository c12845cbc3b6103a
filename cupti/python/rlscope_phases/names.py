"""The names that Python gives threads and multiprocessing gives processes.

A name is a mark in the domain of the phases: what it is of, its id, the name. Whoever starts
another reports it, once that runs: the one that is started would need a ring for it, and a
process would need the shim. Nothing is reported where nothing is started.
"""

import rlscope_phases
from rlscope_phases import core, guesses, listener

# As in tracer/rlscope_trace/ingest/store/python_names.py.
PROCESS, THREAD = "process name", "thread name"


def adapt_threading(module):
    """Take threading."""
    core.report_after(module.Thread, "start", _report_thread)
    _report_when_set(module.Thread)


def adapt_process(module):
    """Take multiprocessing.process."""
    core.report_after(module.BaseProcess, "start", _report_process)
    _look_before_work(module.BaseProcess)


def _look_before_work(cls):
    """Look for environments of the program's own in a worker: nothing else may tell of them."""
    function = cls._bootstrap

    def _bootstrap(self, *args, **kwargs):
        if rlscope_phases.status == "on":
            core.failures.attempt(guesses.OWN, guesses.look)
        return function(self, *args, **kwargs)

    core.copy_names(function, _bootstrap)
    cls._bootstrap = _bootstrap


def _report_when_set(cls):
    """Report a name that a running thread is given."""
    name = cls.name

    def set_name(self, value):
        name.fset(self, value)
        if self.is_alive():
            core.failures.attempt(cls.__module__, _report_thread, self)

    cls.name = property(name.fget, set_name, name.fdel, name.__doc__)


def _report_thread(thread):
    _report(THREAD, thread.native_id, thread.name)


def _report_process(process):
    _report(PROCESS, process.pid, process.name)


def _report(what, number, name):
    if number and listener.is_on():
        core.native.mark("\t".join((what, str(number), core.failures.plain(name))))
