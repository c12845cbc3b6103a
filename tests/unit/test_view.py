"""`rlscope-trace view`: what is drawn is what the views say, and nobody else is answered."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from page_traces import MS, ROUND_NS, training, with_gpu
from recording import rlscope
from rlscope_analysis.result.timeline import CUDA, GPU, OPERATION, PATH, STATE
from trace_builder import TraceBuilder
from viewed import Viewed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

ROUNDS = 12
END_NS = ROUNDS * ROUND_NS
HOSTILE = "</script><b>\"'\x1b[31m"
LANES = (1, 2, 3, 4, 5, -1)
# All of it, a part between edges of intervals, and one with less than a pixel of time in each.
SPANS = ((0, END_NS), (ROUND_NS + 3 * MS + 1, 3 * ROUND_NS - 7), (28 * MS, 28 * MS + 500))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("view")
    builder = training(folder / "trace.duckdb", rounds=ROUNDS)
    builder.operation(2, 0, MS, HOSTILE, source="nvtx")
    return with_gpu(builder, rounds=ROUNDS).write()


@pytest.fixture(scope="module")
def trace(path: Path) -> Iterator[Trace]:
    with rlscope_analysis.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def viewed(path: Path) -> Iterator[Viewed]:
    with Viewed(path) as started:
        yield started
    assert started.code == 0
    assert started.said.endswith("ended\n")


def drawn(viewed: Viewed, span: tuple[int, int], pixels: int) -> dict[tuple[int, int, int], int]:
    """Return how long each lane shows each code in each of its rows."""
    lanes = ",".join(map(str, LANES))
    found = viewed.data("slices.json", **{"from": span[0]}, to=span[1], pixels=pixels, lanes=lanes)
    sums: dict[tuple[int, int, int], int] = {}
    for lane, line, code, time_ns in zip(
        found["lane"], found["line"], found["code"], found["time_ns"], strict=True
    ):
        sums[lane, line, code] = sums.get((lane, line, code), 0) + time_ns
    return sums


def wanted(trace: Trace, span: tuple[int, int]) -> dict[tuple[int, int, int], int]:
    """Return the same from the public views."""
    codes = {"running": 0, "runnable": 1, "sleeping": 2, "blocked": 3}
    causes = rlscope_analysis.schema.vocabulary.CAUSES
    numbers = dict(trace.sql("SELECT value, string_id FROM string").fetchall())
    rows = [
        (lane, STATE, codes[state], start, end)
        for lane, state, start, end in trace.sql(
            "SELECT thread_id, state, start_ns, end_ns FROM thread_state"
        ).fetchall()
    ]
    rows += [
        (lane, OPERATION + depth, path_id, start, end)
        for lane, depth, path_id, start, end in trace.sql(
            "SELECT thread_id, depth, path_id, start_ns, end_ns FROM operation"
        ).fetchall()
    ]
    rows += [
        (lane, CUDA, numbers[name], start, end)
        for lane, name, start, end in trace.sql(
            "SELECT thread_id, name, start_ns, end_ns FROM cuda_call"
        ).fetchall()
    ]
    rows += [
        (-1, GPU, numbers[name], start, end)
        for name, start, end in trace.sql(
            "SELECT name, start_ns, end_ns FROM gpu_activity"
        ).fetchall()
    ]
    rows += [
        (-1 if lane is None else lane, PATH, causes.index(cause), start, end)
        for lane, cause, start, end in trace.sql(
            "SELECT thread_id, cause, start_ns, end_ns FROM critical_path"
        ).fetchall()
    ]
    sums: dict[tuple[int, int, int], int] = {}
    for lane, line, code, start, end in rows:
        inside = min(end, span[1]) - max(start, span[0])
        if inside > 0:
            sums[lane, line, code] = sums.get((lane, line, code), 0) + inside
    return sums


@pytest.mark.parametrize("pixels", [1, 30, 1000])
@pytest.mark.parametrize("span", SPANS)
def test_what_is_drawn_is_the_time_of_the_views(
    viewed: Viewed, trace: Trace, span: tuple[int, int], pixels: int
) -> None:
    """Whatever is added up for a pixel, no nanosecond is lost, and none counted twice."""
    assert drawn(viewed, span, pixels) == wanted(trace, span)


def test_a_viewport_has_no_more_slices_than_can_be_drawn(viewed: Viewed) -> None:
    lanes = ",".join(map(str, LANES))
    found = viewed.data("slices.json", **{"from": 0}, to=END_NS, pixels=30, lanes=lanes)
    # Two of a kind may begin in each pixel, beside those that are wide.
    assert len(found["lane"]) <= len(LANES) * 4 * 30 * 2
    narrow = [at for at, wide in enumerate(found["is_wide"]) if not wide]
    assert narrow
    assert all((found["start_ns"][at] * 30) % END_NS == 0 for at in narrow)


def test_what_the_edges_cut_says_how_long_it_is(viewed: Viewed, trace: Trace) -> None:
    span = SPANS[1]
    found = viewed.data("slices.json", **{"from": span[0]}, to=span[1], pixels=1000, lanes="1")
    shown = {
        (found["start_ns"][at], found["end_ns"][at]): found["length_ns"][at]
        for at, line in enumerate(found["line"]) if line == STATE and found["is_wide"][at]
    }  # fmt: skip
    query = "SELECT start_ns, end_ns FROM thread_state WHERE thread_id = 1"
    states = trace.sql(query).fetchall()
    wanted = {
        (max(start, span[0]), min(end, span[1])): end - start
        for start, end in states if start < span[1] and end > span[0]
    }  # fmt: skip
    assert len(shown) > 6
    assert shown.items() <= wanted.items()
    assert any(length > end - start for (start, end), length in shown.items())


def test_the_legend_names_what_there_is(viewed: Viewed, tmp_path: Path) -> None:
    legend = {words for _, words in viewed.data("trace.json")["legend"]}
    assert {"on a CPU", "waits for a CPU", "other waits"} <= legend
    assert not {"lost", "not measured"} & legend
    # As an import: what threads did is not known.
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.operation(builder.thread(builder.process(pid=1), states=[], end_ns=MS), 0, MS, "step")
    with Viewed(builder.write()) as other:
        assert [words for _, words in other.data("trace.json")["legend"]] == [
            "step", "critical path",
        ]  # fmt: skip


def test_who_woke_a_thread_and_what_launched_a_kernel(viewed: Viewed) -> None:
    found = viewed.data("place.json", lane=1, at=29 * MS)
    said = {one["what"]: one for one in found["said"]}
    assert said["state"] == {
        "what": "state", "text": "waits for a CPU", "time_ns": 2 * MS, "start_ns": 28 * MS,
    }  # fmt: skip
    assert said["operation"]["time_ns"] == 30 * MS
    (jump,) = found["jumps"]
    assert (jump["lane"], jump["at_ns"]) == (2, 28 * MS)
    assert jump["text"].startswith("woken by worker 0")
    # Of the wait itself, too: it ended there.
    (jump,) = viewed.data("place.json", lane=1, at=27 * MS)["jumps"]
    assert (jump["lane"], jump["at_ns"]) == (2, 28 * MS)
    found = viewed.data("place.json", lane=-1, at=34 * MS)
    (kernel,) = found["said"]
    assert (kernel["text"], kernel["time_ns"]) == ("sgemm", 5 * MS + MS // 2)
    (jump,) = found["jumps"]
    assert (jump["lane"], jump["at_ns"]) == (1, 32 * MS)


def test_search_finds_every_instance_in_both_directions(viewed: Viewed) -> None:
    at, seen = -1, []
    while (found := viewed.data("find.json", words="SGEMM", at=at))["next"]:
        assert found["count"] == ROUNDS
        at = found["next"]["start_ns"]
        seen.append(at)
    assert seen == [number * ROUND_NS + 32 * MS + MS // 2 for number in range(ROUNDS)]
    assert viewed.data("find.json", words="sgemm", at=at)["previous"]["start_ns"] == seen[-2]
    assert viewed.data("find.json", words="' OR 1=1 --", at=0)["count"] == 0
    assert viewed.data("find.json", words="</SCRIPT", at=-1)["next"]["name"].startswith("</script>")


def test_names_are_printable_and_the_page_is_its_own(viewed: Viewed) -> None:
    status, headers, text = viewed.ask("")
    assert status == 200
    assert HOSTILE not in text
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    _, headers, text = viewed.ask("trace.json")
    assert "\x1b" not in text
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=lambda headers: ":".join(*headers.items()),
)
def test_other_origins_and_other_names_get_nothing(viewed: Viewed, headers: dict[str, str]) -> None:
    status, answered, text = viewed.ask("trace.json", **headers)
    assert status == 403
    assert "lanes" not in text
    assert "Access-Control-Allow-Origin" not in answered


def test_the_legend_has_what_lanes_can_have(viewed: Viewed) -> None:
    words = dict(viewed.data("trace.json")["legend"])
    assert {"cpu", "queue", "waits", "gpu", "copy", "path"} <= set(words)
    assert "native calls: backend" not in words.values()  # none was recorded


def test_without_the_token_there_is_nothing(viewed: Viewed) -> None:
    token = viewed.parts.path.strip("/")
    assert len(token) >= 32
    for path in ("/", "/trace.json", f"/{token[:-1]}/trace.json", "/%2e%2e/x", "*", "http://[x/"):
        status, _, text = viewed.ask("", path=path, Host=viewed.parts.netloc)
        assert status == 403, path
        assert token not in text
    for name in ("../../etc/passwd", "nothing", "view.py"):
        assert viewed.ask(name)[0] == 404
    for method in ("POST", "PUT", "OPTIONS"):
        assert viewed.ask("trace.json", method=method)[0] == 501


@pytest.mark.parametrize(
    "query",
    [
        "slices.json", "slices.json?from=0&to=7&pixels=9&lanes=1;drop", "place.json?lane=99&at=1",
        "slices.json?from=9&to=3&pixels=9&lanes=1", "place.json?lane=1&at=1e3",
        "slices.json?from=0&to=99999999999999999999999999&pixels=9&lanes=1",
        "slices.json?from=0&to=7&pixels=9&lanes=", "find.json?words=x",
        f"find.json?{'a=1&' * 99}",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_words(viewed: Viewed, query: str) -> None:
    assert viewed.ask(query)[::2] == (400, "not understood")


def test_whoever_sends_slowly_keeps_nobody_out(viewed: Viewed) -> None:
    address = (str(viewed.parts.hostname), viewed.parts.port or 0)
    with ExitStack() as slow:
        for _ in range(40):
            slow.enter_context(socket.create_connection(address)).sendall(b"GET /")
        for _ in range(3):
            assert viewed.ask("trace.json")[0] == 200


def test_it_listens_on_the_loopback_only(viewed: Viewed) -> None:
    assert viewed.parts.hostname == "127.0.0.1"
    other = socket.socket()
    other.settimeout(5)
    with other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", viewed.parts.port))


def test_errors_are_said_before_anything_is_shown(path: Path, viewed: Viewed) -> None:
    taken: Any = viewed.parts.port
    done = rlscope("view", path, "--port", str(taken))
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{taken}" in done.stderr
    assert "hint:" in done.stderr
    done = rlscope("view", path.with_name("none.duckdb"))
    assert done.returncode == 1
    assert "there is no trace at" in done.stderr
