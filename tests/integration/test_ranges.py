"""NVTX ranges of launched programs, from every kind of client, against what the programs did."""

import ctypes
import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

from recording import assert_conserved, query, rlscope

pytestmark = pytest.mark.root

NVTX_LIBRARIES = {
    "2": ("nvidia-nvtx-cu11", "libnvToolsExt.so.1"),
    "3": ("nvidia-nvtx", "libnvtx3interop.so.1"),
}

PYTHON_CLIENT = """
import json, sys, threading, time
import nvtx

times = []
def timed(action):
    before = time.perf_counter_ns()
    result = action()
    times.append((before, time.perf_counter_ns()))
    return result

@nvtx.annotate("decorated", color="red")
def decorated():
    pass

timed(lambda: nvtx.push_range("outer", domain="D", category="C", payload=7))
for _ in range(100):
    with nvtx.annotate("inner", payload=0.5):
        decorated()
nvtx.mark("marked", domain="D")
timed(lambda: nvtx.pop_range(domain="D"))
started = timed(lambda: nvtx.start_range("async", color="blue"))
thread = threading.Thread(target=lambda: timed(lambda: nvtx.end_range(started)))
thread.start()
thread.join()
domain = nvtx.get_domain("fast")
attributes = domain.get_event_attributes(message="registered \\u03b1", category="K")
for _ in range(1000):
    domain.push_range(attributes)
    domain.pop_range()
print(json.dumps(times))
"""

PER_NAME = """
SELECT name, domain, category, source, depth, count(*) FROM operation GROUP BY ALL ORDER BY name
"""


def traced(trace: Path, *command: str | Path) -> str:
    """Trace a program that must succeed, with its own marks only; return its output."""
    done = rlscope("-o", trace, "--no-auto", "--", *command)
    assert done.returncode == 0, done.stderr
    assert_conserved(trace)
    return done.stdout


def losses(trace: Path) -> dict[str, int]:
    """Return what the trace says of operations that are missing, cut or odd."""
    rows = query(
        trace,
        "SELECT code, count FROM trace_stat WHERE code SIMILAR TO '.*(operation|range|name|pop).*'",
    )
    return dict(rows)


def test_every_call_of_the_python_package(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    times = json.loads(traced(trace, sys.executable, "-c", PYTHON_CLIENT))
    assert query(trace, PER_NAME) == [
        ("decorated", None, None, "nvtx", 2, 100),
        ("inner", None, None, "nvtx", 1, 100),
        ("outer", "D", "C", "nvtx", 0, 1),
        ("registered \u03b1", "fast", "K", "nvtx", 0, 1000),
    ]
    (pushed, popped, started, ended) = times
    ((start_ns, end_ns),) = query(
        trace, "SELECT start_ns, end_ns FROM operation WHERE name = 'outer'"
    )
    assert pushed[0] <= start_ns <= pushed[1]
    assert popped[0] <= end_ns <= popped[1]
    ((name, domain, start_ns, end_ns),) = query(
        trace, "SELECT name, domain, start_ns, end_ns FROM async_range"
    )
    assert (name, domain) == ("async", None)
    assert started[0] <= start_ns <= started[1]
    assert ended[0] <= end_ns <= ended[1]
    assert query(trace, "SELECT name, domain FROM mark") == [("marked", "D")]
    assert query(
        trace, "SELECT integer_value, real_value, count(*) FROM operation_payload GROUP BY ALL"
        " ORDER BY 3",
    ) == [(7, None, 1), (None, 0.5, 100)]  # fmt: skip
    colors = dict(query(trace, "SELECT name, color FROM operation_path"))
    assert colors["decorated"] & 0xFFFFFF == 0xFF0000
    assert losses(trace) == {"range_on_two_threads": 1}


def test_calls_without_attributes_and_names_alike(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "odd")
    assert query(trace, "SELECT name, count(*) FROM operation GROUP BY ALL ORDER BY 1") == [
        ("(unnamed)", 1),
        ("stage__c_abudefx", 1),
        ("stage__n_abqdefe", 1),
        ("stage__o_abndefz", 1),
        ("stage__w_abidefd", 1),
        ("stage__z_abzdefw", 1),
    ]
    assert query(trace, "SELECT name FROM mark") == [("(unnamed)",)]
    assert query(trace, "SELECT name FROM async_range") == [("(unnamed)",)]


def test_every_call_of_the_c_header(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    truth = json.loads(traced(trace, client, "kinds"))
    assert query(trace, PER_NAME) == [
        ("registered", "domain", "category", "nvtx", 0, 1),
        ("wide", None, None, "nvtx", 1, 1),
        ("w\u00efde \U0001f680", None, "plain category", "nvtx", 1, 1),
    ]
    ((start_ns, end_ns),) = query(trace, "SELECT start_ns, end_ns FROM operation WHERE depth = 0")
    assert truth["before_ns"] <= start_ns <= truth["begun_ns"]
    assert truth["ending_ns"] <= end_ns <= truth["after_ns"]
    assert query(
        trace,
        "SELECT p.name, integer_value, real_value FROM operation_payload"
        " JOIN operation_path AS p USING (path_id) ORDER BY 1",
    ) == [("registered", None, 1.5), ("w\u00efde \U0001f680", -7, None)]
    assert query(trace, "SELECT name, domain, category FROM mark ORDER BY 1") == [
        ("mark", "domain", "6"),
        ("plain mark", None, None),
    ]
    assert query(trace, "SELECT name, domain FROM async_range ORDER BY 1") == [
        ("crosses threads", None),
        ("mark", "domain"),
    ]
    assert query(trace, "SELECT color FROM operation_path WHERE name = 'registered'") == [
        (0xFF112233,)
    ]


@pytest.mark.parametrize("version", sorted(NVTX_LIBRARIES))
def test_the_libraries_of_nvidia(tmp_path: Path, version: str) -> None:
    trace = tmp_path / "trace.duckdb"
    program = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
for _ in range(10):
    library.nvtxRangePushA(b"from ctypes")
    library.nvtxRangePop()
library.nvtxMarkA(b"marked")
"""
    traced(trace, sys.executable, "-c", program, nvtx_library(version))
    assert query(trace, PER_NAME) == [("from ctypes", None, None, "nvtx", 0, 10)]
    assert query(trace, "SELECT name FROM mark") == [("marked",)]
    assert losses(trace) == {}


def nvtx_library(version: str) -> str:
    """Return the file of one of NVIDIA's libraries, which must load."""
    package, name = NVTX_LIBRARIES[version]
    files = importlib.metadata.files(package) or []
    (path,) = [str(file.locate()) for file in files if file.name == name]
    assert ctypes.CDLL(path)
    return path


def test_pairs_that_do_not_match_are_counted(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, client, "left")
    assert losses(trace) == {
        "operation_too_deep": 6,
        "pop_unbalanced": 2,
        "range_end_alone": 1,
        "operation_not_nested": 1,
        "operation_open_at_end": 2,
        "range_never_ended": 1,
    }
    ((crossed, other),) = query(
        trace,
        "SELECT any_value(end_ns) FILTER (WHERE name = 'crossed'),"
        " any_value(end_ns) FILTER (WHERE name = 'other domain') FROM operation",
    )
    assert crossed < other
    assert query(
        trace,
        "SELECT count(*) FROM operation AS o JOIN thread AS t USING (thread_id)"
        " WHERE o.name LIKE 'left open%' AND o.end_ns = t.end_ns",
    ) == [(2,)]


def test_the_time_of_operations_adds_up(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, sys.executable, "-c", PYTHON_CLIENT)
    assert query(
        trace,
        "SELECT sum(self_ns) - (SELECT sum(end_ns - start_ns) FROM thread AS t WHERE thread_id IN"
        " (SELECT thread_id FROM operation)) FROM operation_tree",
    ) == [(0,)]


def test_nothing_is_listened_to_with_nvtx_off(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope("-o", trace, "--nvtx", "off", "--", sys.executable, "-c", PYTHON_CLIENT)
    assert done.returncode == 0, done.stderr
    assert query(trace, "SELECT count(*) FROM operation") == [(0,)]
    assert query(
        trace, "SELECT measured, code, subject FROM coverage WHERE kind = 'operation'"
    ) == [(False, "not_asked_for", "--nvtx off")]


def test_a_small_address_space_is_left_to_the_program(tmp_path: Path, client: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    traced(trace, "bash", "-c", f"ulimit -v 1000000; {client} storm 1 10; true")
    assert query(trace, "SELECT count(*) FROM operation") == [(0,)]
