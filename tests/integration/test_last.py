"""record --last: the end of a recording, to the nanosecond what a full one has; a bounded disk."""

import json
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Workload
from kept_spools import last_segment, segments, size, states_from, without_oldest
from recording import Recorder, assert_conserved, assert_whole, meta, query, rlscope, until

pytestmark = pytest.mark.root

# A parent that computes and waits for what its child answers; threads and children come and go.
BUSY = """
import os, threading, time
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(there[1])
    while os.read(there[0], 1):
        os.write(back[1], b"!")
    os._exit(0)
print("ready", flush=True)
turn = 0
while True:
    for _ in range(100):
        os.write(there[1], b"!")
        os.read(back[0], 1)
    turn += 1
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    if turn % 10 == 0 and os.fork() == 0:
        os._exit(0)
    while turn % 10 == 0:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            pass
        break
"""
# Marks one range for ever and others in it; it says when each began.
MARKS = """
import json, sys, time
import nvtx
nvtx.push_range("for ever")
begun = nvtx.start_range("under way")
times = []
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    nvtx.push_range("work", payload=len(times))
    before = time.perf_counter_ns()
    time.sleep(0.005)
    after = time.perf_counter_ns()
    nvtx.pop_range()
    times.append((before, after))
nvtx.end_range(begun)
nvtx.pop_range()
print(json.dumps(times))
"""


SAMPLES = """
SELECT t.tid, s.ts_ns, s.layer, k.frames
FROM cpu_sample AS s JOIN thread AS t USING (thread_id) LEFT JOIN stack AS k USING (stack_id)
WHERE s.ts_ns >= $1 ORDER BY ALL
"""
OTHERS = """
SELECT r.cpu, greatest(r.start_ns, $1), r.end_ns, p.name
FROM other_run AS r JOIN other_program AS p USING (program_id) WHERE r.end_ns > $1 ORDER BY ALL
"""


@pytest.fixture
def busy(program: Callable[..., Workload]) -> Workload:
    made = program(BUSY)
    assert made.readline() == "ready"
    return made


def kept_from(trace: Path) -> int:
    """Return since when a trace was kept, as its table coverage says."""
    ((from_ns,),) = query(trace, "SELECT ts_ns FROM coverage WHERE code = 'kept_last'")
    return int(from_ns)


def killed(recorder: Recorder) -> Path:
    """Kill a recorder; return its spool."""
    recorder.signal(signal.SIGKILL)
    assert recorder.wait() == -signal.SIGKILL
    return recorder.spool


def recovered(spool: Path, trace: Path) -> Path:
    """Return the trace of a spool."""
    done = rlscope("recover", spool, "-o", trace)
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
    assert not spool.exists()
    assert_conserved(trace)
    return trace


def test_what_is_kept_is_what_a_whole_recording_has(
    tmp_path: Path, busy: Workload, record: Callable[..., Recorder]
) -> None:
    recorder = record(tmp_path / "t.duckdb", f"--pid={busy.pid}", "--last=2").live()
    until(lambda: last_segment(recorder.spool) >= 3, what="segments are begun")
    spool = killed(recorder)
    assert segments(spool)[0] == 0, "one was dropped: nothing to compare with"
    later = without_oldest(spool, tmp_path / "later.spool", 2)
    whole = recovered(spool, tmp_path / "whole.duckdb")
    last = recovered(later, tmp_path / "last.duckdb")
    from_ns = kept_from(last)
    assert query(whole, "SELECT count(*) FROM coverage WHERE code = 'kept_last'") == [(0,)]
    assert min(start for _, start, *_ in states_from(last, 0)) >= from_ns
    reported = states_from(last, from_ns)
    assert len(reported) > 1000
    assert reported == states_from(whole, from_ns)
    assert int(meta(last)["start_ns"]) == from_ns
    assert query(last, SAMPLES, [from_ns]) == query(whole, SAMPLES, [from_ns])
    assert query(last, OTHERS, [from_ns]) == query(whole, OTHERS, [from_ns])
    command = "SELECT command FROM process WHERE pid = ?"
    assert query(last, command, [busy.pid]) == query(whole, command, [busy.pid])
    # It was looked at before what is kept.
    looked = "SELECT kind, measured, code FROM coverage WHERE process_id = (" \
             "SELECT process_id FROM process WHERE pid = ?) ORDER BY ALL"  # fmt: skip
    assert query(last, looked, [busy.pid]) == query(whole, looked, [busy.pid])
    # A function that was sampled has a name, though it was told before.
    assert query(last, "SELECT count(*) FROM cpu_sample WHERE stack_id NOT IN"
                       " (SELECT stack_id FROM stack)") == [(0,)]  # fmt: skip


def test_the_disk_holds_no_more_than_the_last_seconds(
    tmp_path: Path, busy: Workload, record: Callable[..., Recorder]
) -> None:
    trace = tmp_path / "t.duckdb"
    recorder = record(trace, f"--pid={busy.pid}", "--last=1").live()
    most: dict[int, float] = {}
    files: dict[int, int] = {}

    def looks() -> bool:
        found = segments(recorder.spool)
        if found:
            largest = max(size(recorder.spool, f"records-{number}.bin") for number in found)
            of_largest = size(recorder.spool) / max(largest, 1)
            if len(found) > 1:
                most[found[-1]] = max(most.get(found[-1], 0.0), of_largest)
            files[found[-1]] = max(files.get(found[-1], 0), len(found))
        return bool(found) and found[-1] >= 16

    until(looks, what="it has gone on for long")
    assert recorder.stop() == 0
    assert_whole(recorder.words())
    assert_conserved(trace)
    assert "the last " in recorder.words()
    # Of 17 segments 7 are there at a time: in all of them there is 2.4 times as much.
    assert max(files.values()) <= 7
    assert not recorder.spool.exists()
    written = int(recorder.words().split(" records")[0].split()[-1].replace(",", ""))
    ((states,),) = query(trace, "SELECT count(*) FROM thread_state")
    assert 0 < states < written
    # By the largest segment at that time: how much a busy machine leaves the program differs.
    assert max(of_largest for number, of_largest in most.items() if number >= 8) < 9
    from_ns = kept_from(trace)
    assert int(meta(trace)["start_ns"]) == from_ns
    assert int(meta(trace)["end_ns"]) - from_ns >= 10**9
    assert "the last 1." in rlscope("summarize", trace).stdout.splitlines()[0]
    assert " s before were not kept (--last)" in rlscope("summarize", trace, "--all").stdout


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.matrix) for n in range(2, 40))]
)
def test_a_kill_at_any_time_leaves_the_last_seconds(
    tmp_path: Path, busy: Workload, record: Callable[..., Recorder], seed: int
) -> None:
    recorder = record(tmp_path / "t.duckdb", f"--pid={busy.pid}", "--last=1").live()
    chance = random.Random(seed)
    number = 7 + chance.randrange(8)
    # Half of them while a segment begins, the others at any time.
    kind = chance.choice(["shim", "progress", "records", None])
    if kind is None:
        until(lambda: last_segment(recorder.spool) >= number, what="segments come and go")
        busy_for = chance.randrange(200)
        for _ in range(busy_for * 1000):
            pass
    else:
        name = recorder.spool / f"{kind}-{number}.bin"
        until(name.exists, what="a segment begins")
    spool = killed(recorder)
    trace = recovered(spool, tmp_path / "t.duckdb")
    from_ns = kept_from(trace)
    ((start_ns, end_ns),) = query(trace, "SELECT min(start_ns), max(end_ns) FROM thread_state")
    assert start_ns >= from_ns
    assert end_ns - from_ns >= 700_000_000
    assert query(trace, "SELECT code FROM trace_stat WHERE kind IN ('dropped', 'unmatched')"
                        " AND code NOT SIMILAR TO '.*unseen'") == []  # fmt: skip


def test_ranges_keep_their_names_and_their_times(tmp_path: Path) -> None:
    trace = tmp_path / "t.duckdb"
    done = rlscope(
        "-o", trace, "--last", "1s", "--no-auto", "--", sys.executable, "-c", MARKS, "2"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_whole(done.stderr)
    assert_conserved(trace)
    times = json.loads(done.stdout)
    from_ns = kept_from(trace)
    ranges = query(
        trace,
        "SELECT o.start_ns, o.end_ns, p.integer_value FROM operation AS o"
        " JOIN operation_payload AS p USING (thread_id, start_ns, path_id)"
        " WHERE name = 'work' ORDER BY start_ns",
    )
    kept = [place for place, (_, after) in enumerate(times) if after > from_ns]
    assert kept[0] > 50
    assert [int(payload) for *_, payload in ranges] == kept
    for start_ns, end_ns, payload in ranges:
        before, after = times[int(payload)]
        assert start_ns == from_ns or start_ns <= before
        assert end_ns >= after
    ((outer_ns,),) = query(trace, "SELECT start_ns FROM operation WHERE name = 'for ever'")
    assert outer_ns == from_ns
    ((begun_ns,),) = query(trace, "SELECT start_ns FROM async_range WHERE name = 'under way'")
    assert begun_ns == from_ns


def test_a_short_recording_is_kept_as_a_whole(tmp_path: Path) -> None:
    trace = tmp_path / "t.duckdb"
    done = rlscope("-o", trace, "--last", "10m", "--", sys.executable, "-c", "print('said')")
    assert (done.returncode, done.stdout) == (0, "said\n")
    assert "the last " not in done.stderr
    assert query(trace, "SELECT count(*) FROM coverage WHERE code = 'kept_last'") == [(0,)]
    assert_conserved(trace)
    assert list(tmp_path.iterdir()) == [trace]


@pytest.mark.parametrize("text", ["", "0", "0.5", "-3", "nan", "1e9", "2d", "60 s", "\u0663\u0660"])
def test_what_is_no_time(text: str) -> None:
    done = rlscope("--last", text, "--", "true")
    assert done.returncode == 2
    assert "error:" in done.stderr
