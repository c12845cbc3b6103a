"""What the target tells of adapters that failed becomes rows of table coverage."""

from rlscope_analysis.sentences import coverage_sentence, fact_sentence
from rlscope_trace.ingest.store.phase_failures import PhaseFailures
from rlscope_trace.ingest.store.processes import Life

PARENT = Life(1, 100, 0, 0, ())


def reported(adapter: str, error: str = "KeyError", message: str = "'x'") -> str:
    return "\t".join(("adapter failed", adapter, error, message))


def reasons(failures: PhaseFailures, *lives: Life) -> list[tuple[int, str]]:
    coverages = list(failures.coverages(lives))
    assert all(reported.kind == "operation:phases" and reported.is_part for reported in coverages)
    return [
        (reported.process_id or 0, fact_sentence(fact))
        for reported in coverages
        for fact in reported.facts
    ]


def test_failures_are_counted_by_process() -> None:
    failures = PhaseFailures()
    for pid, text in (
        (100, reported("torch")),
        (100, reported("torch")),
        (200, reported("dm_env", "E", "")),
    ):
        failures.add(pid, 10, text)
    assert reasons(failures, PARENT, Life(2, 200, 0, 5, ())) == [
        (1, "the adapter of torch failed 2 times: KeyError: 'x'"),
        (2, "the adapter of dm_env failed once: E"),
    ]


def test_a_process_without_phases_measured_none() -> None:
    failures = PhaseFailures()
    failures.add(100, 10, "no phases\tfree_threaded")
    failures.add(200, 10, "no phases\tnative_not_loaded\t/a.so: file\ttoo short")
    failures.add(300, 10, "no phases\tof a newer one")
    failures.add(400, 10, "no phases")
    lives = [Life(number, 100 * number, 0, 0, ()) for number in (1, 2, 3, 4)]
    coverages = list(failures.coverages([*lives, Life(5, 500, 1, 20, ())]))
    assert not any(found.measured or found.is_part for found in coverages)
    head = "there are no automatic phases: "
    assert {
        found.process_id: coverage_sentence(found.facts, measured=False) for found in coverages
    } == {
        1: f"{head}Python is built without the GIL",
        2: f"{head}the native module cannot be loaded: /a.so: file\ttoo short",
        3: f"{head}of a newer one",
        5: f"{head}Python is built without the GIL",
    }


def test_a_fork_lacks_what_its_parent_lacked_when_it_was_made() -> None:
    failures = PhaseFailures()
    failures.add(100, 10, reported("torch"))
    failures.add(100, 30, reported("gym.core"))
    fork, other_program = Life(2, 200, 1, 20, ()), Life(3, 300, 1, 20, (25,))
    grandchild = Life(4, 400, 2, 40, ())
    found = reasons(failures, PARENT, fork, other_program, grandchild)
    assert [process_id for process_id, reason in found if "torch" in reason] == [1, 2, 4]
    assert [process_id for process_id, reason in found if "gym" in reason] == [1]


def test_other_marks_and_unknown_processes_tell_nothing() -> None:
    failures = PhaseFailures()
    for text in ("", "(name lost)", "adapter failed", "adapter failed\ta\tb", "mark\ta\tb\tc"):
        failures.add(100, 10, text)
    failures.add(999, 10, reported("torch"))
    assert reasons(failures, PARENT) == []


def test_a_process_that_tells_without_end_gets_few_rows() -> None:
    failures = PhaseFailures()
    for number in range(70_000):
        failures.add(100, 10, reported(f"adapter {number % 5000}"))
    failures.add(100, 10, reported("others", "", ""))
    assert len(reasons(failures, PARENT)) == 33


def test_more_than_a_process_tells_apart_is_said_to_be_more() -> None:
    failures = PhaseFailures()
    failures.add(100, 10, reported("others", "", ""))
    assert reasons(failures, PARENT) == [(1, "more adapters failed, 1 times")]
