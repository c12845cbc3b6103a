"""The locks between processes: of those that one process has at a time their address is reported.

The OS kernel sees only that a thread waits for a word of memory. Whether that is a lock, or a
semaphore by which others say that something is there, is known where it is made.
"""

from rlscope_phases import core, listener

# As in tracer/rlscope_trace/ingest/store/python_locks.py.
LOCK = "lock"
# A program may make locks without end.
MAX_LOCKS = 1 << 10
reported = 0


def adapt(module):
    """Take multiprocessing.synchronize; a child that was not forked gets its locks by a pickle."""
    for cls in (module.Lock, module.RLock):
        core.report_after(cls, "__init__", _report)
        core.report_after(cls, "__setstate__", _report)
    for cls in (module.Semaphore, module.BoundedSemaphore):
        core.report_after(cls, "__init__", _report_if_one)


def _report(lock):
    global reported
    if reported < MAX_LOCKS and listener.is_on():
        reported += 1
        core.native.mark("\t".join((LOCK, str(lock._semlock.handle))))


def _report_if_one(semaphore):
    """Report a semaphore that begins with one: one can have it, where others begin with none."""
    if semaphore._semlock._get_value() == 1:
        _report(semaphore)
