"""Which member the iterations of a job wait for."""

from __future__ import annotations

from dataclasses import replace

from rlscope_analysis.fleet.merge import Iteration, Merged
from rlscope_analysis.fleet.partial import Facts
from rlscope_analysis.fleet.stragglers import Straggling, align, straggling

FACTS = Facts("host", "boot", "1", "2", True, 1, 1, 0, 9, 4, "range", "step")
MS = 10**6


def fleet(waits: dict[str, list[int | None]], *, begins: int = 0, **facts: object) -> Merged:
    """Return members whose iterations of 100 ms wait so many ms for others."""
    return Merged(
        {},
        {
            name: replace(FACTS, iterations=len(of), **facts)  # type: ignore[arg-type]
            for name, of in waits.items()
        },
        {
            name: tuple(
                Iteration(
                    at + 1, begins * number * MS + at * 100 * MS, 100 * MS,
                    None if wait is None else wait * MS,
                )
                for at, wait in enumerate(of)
            )
            for number, (name, of) in enumerate(waits.items())
        },
    )  # fmt: skip


WAITS: dict[str, list[int | None]] = {"a": [30, 30, 0, 30], "b": [0, 10, 30, 10], "c": [20] * 4}


def test_the_one_that_waits_least_is_the_one_waited_for() -> None:
    found = align(fleet(WAITS, begins=1))
    assert (found.how, len(found.rows), found.left_out) == ("clock", 4, 0)
    assert straggling(found) == (
        # In the first by 20 ms more than c, in the second and fourth by 10.
        Straggling("b", 4, 400 * MS, 350 * MS, 3, 40 * MS),
        Straggling("a", 4, 400 * MS, 310 * MS, 1, 20 * MS),
        Straggling("c", 4, 400 * MS, 320 * MS, 0, 0),
    )


def test_an_iteration_that_a_member_lacks_is_left_out() -> None:
    found = align(fleet({"a": [0] * 6, "b": [10] * 4}))
    assert (found.how, len(found.rows), found.left_out) == ("clock", 4, 2)


def test_iterations_whose_waits_are_not_known_tell_nothing() -> None:
    found = straggling(align(fleet({"a": [None, 0], "b": [10, 20]})))
    assert [(one.member, one.iterations, one.beyond_ns) for one in found] == [
        ("a", 1, 20 * MS), ("b", 1, 0),
    ]  # fmt: skip


def test_members_of_different_machines_need_a_clock() -> None:
    whole = fleet({"a": [0] * 4, "b": [10] * 3}, begins=40)
    whole.members["b"] = replace(whole.members["b"], boot_id="other")
    assert align(whole).how == "none"
    offsets = {"a": lambda ts_ns: ts_ns, "b": lambda ts_ns: ts_ns - 40 * MS}
    assert [len(row) for row in align(whole, offsets).rows] == [2] * 3


def test_as_many_ranges_of_one_name_are_taken_for_the_same() -> None:
    whole = fleet({"a": [0] * 4, "b": [10] * 4}, begins=5000)
    whole.members["b"] = replace(whole.members["b"], boot_id=None)
    assert align(whole).how == "number"
    whole.members["b"] = replace(whole.members["b"], per="other")
    assert align(whole).how == "none"


def test_iterations_at_other_times_do_not_go_together() -> None:
    assert align(fleet({"a": [0] * 4, "b": [10] * 4}, begins=5000)).how == "none"


def test_one_member_has_nobody_to_wait_for() -> None:
    assert straggling(align(fleet({"a": [0] * 4}))) == ()
