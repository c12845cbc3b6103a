"""What ps showed of each process when it was last looked at."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rlscope_trace.ingest.store.processes import Life


def titles_of(lives: Sequence[Life], reported: Iterable[tuple[int, int, str]]) -> dict[int, str]:
    """Return the last title of each process, by process_id; reported: pid, ts_ns and title.

    One of a program that was replaced since is none of the process any more.
    """
    by_pid: dict[int, list[Life]] = defaultdict(list)
    for life in lives:
        by_pid[life.pid].append(life)
    titles: dict[int, str] = {}
    for pid, ts_ns, title in sorted(reported, key=lambda row: row[1]):
        begun = [life for life in by_pid.get(pid, ()) if life.first_ns <= ts_ns]
        if begun:
            last = max(begun, key=lambda life: life.first_ns)
            if ts_ns >= max(last.exec_ns, default=0):
                titles[last.process_id] = title
    return titles
