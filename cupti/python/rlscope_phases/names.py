"""What Python calls its threads and multiprocessing its processes, told by those who start them.

A name is a mark in the domain of the phases: what it is of, its id, the name. Whoever starts
another tells, once that runs: the one that is started would need a ring for it, and a process would
need the shim. Nothing is told where nothing is started.
"""

from rlscope_phases import core

# As in tracer/rlscope_trace/ingest/store/python_names.py.
PROCESS, THREAD = "process name", "thread name"


def adapt_threading(module):
    """Take threading."""
    _tell_after(module.Thread, "start", _tell_thread)
    _tell_when_set(module.Thread)


def adapt_process(module):
    """Take multiprocessing.process."""
    _tell_after(module.BaseProcess, "start", _tell_process)


def _tell_after(cls, name, tell):
    """Have a method that returned be told of."""
    function = getattr(cls, name)

    def start(self):
        result = function(self)
        core.failures.attempt(cls.__module__, tell, self)
        return result

    core.copy_names(function, start)
    setattr(cls, name, start)


def _tell_when_set(cls):
    """Have a name that a running thread is given be told."""
    name = cls.name

    def set_name(self, value):
        name.fset(self, value)
        if self.is_alive():
            core.failures.attempt(cls.__module__, _tell_thread, self)

    cls.name = property(name.fget, set_name, name.fdel, name.__doc__)


def _tell_thread(thread):
    _tell(THREAD, thread.native_id, thread.name)


def _tell_process(process):
    _tell(PROCESS, process.pid, process.name)


def _tell(what, number, name):
    if number and core.is_on():
        core.native.mark("\t".join((what, str(number), core.failures.plain(name))))
