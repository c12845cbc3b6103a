"""Where the GIL of each process lies: what tells a wait for it from a wait for another lock."""

from collections.abc import Sequence

from rlscope_trace.ingest.store.probe_facts import Interpreter
from rlscope_trace.ingest.store.processes import Life

Range = tuple[int, int, int]
"""From when on (ns), first address, end."""


def gil_ranges(
    lives: Sequence[Life], interpreters: Sequence[Interpreter]
) -> dict[int, list[Range]]:
    """Return the ranges of every process that has one, by process_id and in order of time.

    An interpreter is found some time after its program began, so its range holds from that
    beginning on. A child that never calls exec has the memory of its parent.
    """
    found: dict[int, list[Range]] = {}
    for interpreter in sorted(interpreters, key=lambda one: one.ts_ns):
        life = life_of(lives, interpreter.pid, interpreter.ts_ns)
        if life is None:
            continue
        start, end = interpreter.gil_start, interpreter.gil_end
        if interpreter.free_threaded:
            start = end = 0
        found.setdefault(life.process_id, []).append(
            (_program_start(life, interpreter.ts_ns), start, end)
        )
    # Parents come before their children.
    for life in lives:
        inherited = found.get(life.parent_process_id, [])
        if life.process_id not in found and not life.exec_ns and inherited:
            before = [one for one in inherited if one[0] <= life.first_ns]
            found[life.process_id] = [(before or inherited)[-1]]
    return found


def life_of(lives: Sequence[Life], pid: int, ts_ns: int) -> Life | None:
    """Return the process that had this pid at an instant.

    Before the first one it was that one, which was there when recording, or what is kept of it,
    began.
    """
    having = [life for life in lives if life.pid == pid]
    before = [life for life in having if life.first_ns <= ts_ns]
    if before:
        return max(before, key=lambda life: life.first_ns)
    return min(having, key=lambda life: life.first_ns, default=None)


def _program_start(life: Life, ts_ns: int) -> int:
    return max((exec_ns for exec_ns in life.exec_ns if exec_ns <= ts_ns), default=life.first_ns)
