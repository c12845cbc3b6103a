"""Whatever fails in CUPTI, and however a program ends, the program is not disturbed.

Each call of CUPTI fails in turn, in a program of its own; all run in one recording.
"""

import re
import signal

import pytest

from conftest import REPOSITORY
from gpu_family import Family, calls, record, truth

pytestmark = pytest.mark.root

MIXED = (
    "--api=runtime", "--threads=2", "--launches=20", "--copies=2", "--sets=1", "--graphs=2",
    "--syncs=2", "--names",
)  # fmt: skip
FAKES = "".join(path.read_text() for path in (REPOSITORY / "tests" / "fakes").glob("fake_*.c"))
# Only asked where another one failed.
ASKED_LATER = ("cuptiSubscribe_v2",)
CALLS = tuple(
    sorted(set(re.findall(r"^FAKE_EXPORT int (cupti\w+)\(", FAKES, re.MULTILINE)) - {*ASKED_LATER})
)
# Without these nothing can be recorded, and the status says that one of them failed.
FATAL = (
    "cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
    "cuptiActivityFlushAll",
)  # fmt: skip
# What is recorded without these is not all, or not the same: the reason says so.
TOLD = (
    "cuptiActivityRegisterTimestampCallback", "cuptiSetThreadIdType",
    "cuptiActivityEnableRuntimeApi", "cuptiActivityEnableDriverApi",
)  # fmt: skip
# Kinds of activity, and what is missing where they are refused.
REFUSED = {
    "1": "memcpy", "2": "memset", "38": "sync", "51": "graph", "9": None, "17": None, "22": None,
    "37": None,
}  # fmt: skip
ENDS = ("_exit", "fault", "bad", "open")
CUDA_ERRORS = {"_exit": 0, "fault": 700, "bad": 1, "open": 0}


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    programs = {call: calls(*MIXED, FAKECUPTI_FAIL=f"{call}:999") for call in CALLS}
    programs |= {
        f"refused-{kind}": calls(*MIXED, FAKECUPTI_FAIL=f"cuptiActivityEnable#{kind}:27")
        for kind in REFUSED
    }
    programs |= {end: calls("--launches=20", f"--end={end}") for end in ENDS}
    programs |= {
        "kill": calls("--launches=20", "--end=kill"),
        "fork": calls("--launches=20", "--fork"),
        "contexts": calls("--contexts=20"),
        "idle": calls("--idle"),
        "no device": calls(FAKECUDA_NODEV="1"),
        "no toolkit": calls(release=None, FAKECUDA_DRIVER="10020"),
        "wrong toolkit": calls(RLSCOPE_CUPTI_LIBRARY="/nowhere/libcupti.so.13"),
        "subscribed": calls(
            *MIXED, FAKECUPTI_FAIL="cuptiSubscribe:39", FAKECUPTI_HOLDER="CUPTI for Kineto"
        ),
        "nameless": calls(*MIXED, FAKECUPTI_FAIL="cuptiSubscribe:39,cuptiSubscribe_v2:999"),
    }
    return record(tmp_path_factory.mktemp("gpu"), programs)


def assert_undisturbed(family: Family, label: str, cuda_error: int = 0) -> None:
    """Hold a program to it that it did all it was to do, and wrote nothing but its truth."""
    program = family.programs[label]
    assert program["code"] == 0, program
    assert program["stderr"] == ""
    reported = family.reported(label)
    assert (reported["right"], reported["error"]) == (True, cuda_error)


def test_all_calls_of_cupti_are_tried() -> None:
    shim = (REPOSITORY / "cupti" / "cupti_library.c").read_text()
    used = set(re.findall(r'"(cupti[A-Z]\w+)"', shim))
    assert len(used) > 12
    assert used <= {*CALLS, *ASKED_LATER}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_disturbs_nobody(family: Family, call: str) -> None:
    assert_undisturbed(family, call)
    statuses = family.statuses(call)
    assert statuses
    last = statuses[-1]
    # One that was begun and failed later is told of twice, and no more often.
    if len(statuses) > 1:
        (first, _) = statuses
        assert (first["state"], first["reason"]) == ("on", None)
    if call in FATAL:
        assert (last["state"], last["code"]) == ("refused", 999)
    else:
        assert last["state"] == "on"
    if call in FATAL or call in TOLD:
        assert last["reason"] == "cupti_failed"
        assert call == last["subject"].partition("(")[0]
    for kind in ("cuda_call", "gpu_activity"):
        measured, reason = family.coverage(call, kind)
        assert measured is (call not in FATAL)
        # Where there are fewer rows for it, or none, that is no zero.
        assert (call in reason) is (last["reason"] is not None)
    if call in FATAL:
        assert family.work(call) == {}


@pytest.mark.parametrize("call", [call for call in CALLS if call not in FATAL])
def test_what_does_not_need_a_call_is_recorded_without_it(family: Family, call: str) -> None:
    found, wanted = family.work(call), truth(family.reported(call))
    if call == "cuptiActivityGetNextRecord":
        # Nothing can be read: that is counted, and no zero.
        assert found == {}
        rows = family.query("SELECT count FROM trace_stat WHERE code LIKE 'cupti_kind%_unknown'")
        assert rows
        return
    for kind in ("kernel", "memcpy", "memset", "graph"):
        assert found[kind][0] == wanted[kind][0]
        assert abs(found[kind][1] - wanted[kind][1]) <= found[kind][0]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_kind_that_is_refused_is_named(family: Family, kind: str) -> None:
    label = f"refused-{kind}"
    assert_undisturbed(family, label)
    (status,) = family.statuses(label)
    assert (status["state"], status["code"]) == ("on", 27)
    assert status["refused"] is not None
    assert status["subject"] == f"cuptiActivityEnable({status['refused'].upper()})"
    assert REFUSED[kind] not in family.work(label)
    assert "kernel" in family.work(label)


@pytest.mark.parametrize(
    ("label", "reason", "holder"),
    [("subscribed", "cupti_held_by", "CUPTI for Kineto"), ("nameless", "cupti_held", None)],
)
def test_another_subscriber_is_named(
    family: Family, label: str, reason: str, holder: str | None
) -> None:
    assert_undisturbed(family, label)
    (status,) = family.statuses(label)
    assert (status["state"], status["code"]) == ("refused", 39)
    assert (status["reason"], status["subject"]) == (reason, holder)


@pytest.mark.parametrize("end", ENDS)
def test_a_program_may_end_as_it_likes(family: Family, end: str) -> None:
    assert_undisturbed(family, end, CUDA_ERRORS[end])
    assert family.statuses(end)[0]["state"] == "on"
    found = family.work(end).get("kernel", (0, 0))
    wanted = truth(family.reported(end))["kernel"]
    # _exit: nobody can ask CUPTI for the rest there.
    is_whole = "CUPTI still held records" not in family.coverage(end, "gpu_activity")[1]
    assert found == wanted if is_whole else (end == "_exit" and found[0] <= wanted[0])


def test_a_program_may_be_killed(family: Family) -> None:
    program = family.programs["kill"]
    assert program["code"] == -signal.SIGKILL
    assert program["stderr"] == ""
    assert family.statuses("kill")[0]["state"] == "on"
    # What CUPTI had not handed over is gone with the process.
    wanted = truth(family.reported("kill"))["kernel"]
    assert family.work("kill").get("kernel", (0, 0))[0] <= wanted[0]
    measured, reason = family.coverage("kill", "gpu_activity")
    assert measured
    assert "in part: CUPTI still held records when it ended" in reason
    ((count,),) = family.query("SELECT count FROM trace_stat WHERE code = 'cupti_held_records'")
    assert count == sum(
        "CUPTI still held records" in family.coverage(label, "gpu_activity")[1]
        for label in family.programs
    )


def test_a_forked_child_is_left_alone(family: Family) -> None:
    assert_undisturbed(family, "fork")
    assert family.work("fork")["kernel"] == truth(family.reported("fork"))["kernel"]
    children = family.query(
        "SELECT count(*), count(s.process_id) FROM process AS p LEFT JOIN gpu_status AS s"
        " USING (process_id) WHERE p.parent_process_id = ?",
        family.process("fork"),
    )
    assert children == [(1, 0)]


def test_contexts_come_and_go(family: Family) -> None:
    assert_undisturbed(family, "contexts")
    assert family.work("contexts")["kernel"] == truth(family.reported("contexts"))["kernel"]


def test_a_program_without_gpu_work_is_measured_as_such(family: Family) -> None:
    assert_undisturbed(family, "idle")
    assert [status["state"] for status in family.statuses("idle")] == ["on"]
    assert family.coverage("idle", "gpu_activity")[0] is True
    assert family.work("idle") == {}


def test_a_machine_without_a_gpu_is_not_measured(family: Family) -> None:
    assert_undisturbed(family, "no device", 100)
    assert family.statuses("no device") == []
    assert family.coverage("no device", "gpu_activity")[0] is False


@pytest.mark.parametrize(
    ("label", "reason", "words"),
    [
        ("no toolkit", "cupti_not_found", "no libcupti.so.10 was found, neither loaded"),
        ("wrong toolkit", "cupti_not_loaded", "RLSCOPE_CUPTI_LIBRARY: /nowhere/libcupti.so.13"),
    ],
)
def test_a_missing_library_is_named(family: Family, label: str, reason: str, words: str) -> None:
    assert_undisturbed(family, label)
    (status,) = family.statuses(label)
    assert status["state"] == "refused"
    assert status["reason"] == reason
    measured, said = family.coverage(label, "gpu_activity")
    assert (measured, said[: len(words)]) == (False, words)
