"""Views of readings made by hand: what is shown adds up, and says who is who."""

import json
from dataclasses import replace

import pytest

from live_readings import SECOND, last_view, phase, reading, thread
from rlscope_analysis.renderers.json import render_line
from rlscope_trace.cli.top_shown import ShownLines
from rlscope_trace.cli.top_words import line, verdict
from rlscope_trace.record.live.reading import Reading


def test_shares_add_up_and_roles_are_told() -> None:
    view = last_view([reading(at) for at in range(1, 6)])
    assert [(p.role, p.number) for p in view.processes] == [
        ("learner", None), *(("worker", number) for number in range(4)),
    ]  # fmt: skip
    for process in view.processes:
        times = process.times
        assert times.running + times.queue + times.waits + times.lost == pytest.approx(1)
    learner, worker = view.processes[:2]
    assert (learner.waits_for, worker.waits_for) == ("workers", "learner")
    assert {(w.role, w.number, w.waker) for w in view.waits} == {
        ("learner", None, "workers"), *(("worker", number, "learner") for number in range(4)),
    }  # fmt: skip
    assert learner.python == pytest.approx(0.3)
    assert worker.python is None
    assert view.phases is not None
    shares = {reported.name: reported.share for reported in view.phases}
    assert shares == pytest.approx({"backpropagation": 0.5, "simulation": 0.3, None: 0.2})
    assert view.cpus == pytest.approx(0.8 + 4 * 0.1)
    assert view.window_s == 2
    assert view.recorder == pytest.approx(0.01)
    assert view.records_per_s == 1000


def test_steps_of_workers_are_not_counted_twice() -> None:
    assert last_view([reading(1), reading(2)]).steps_per_s == 500


def test_an_iteration_is_as_long_as_its_starts_are_apart() -> None:
    readings = [reading(at) for at in (1, 2, 5)]
    assert last_view(readings).iteration_ns == SECOND
    assert last_view([reading(1), replace(reading(2), phases=())]).iteration_ns is None


def test_a_range_is_an_iteration_where_it_is_called_like_one() -> None:
    """As in a trace: another range may come several times in one."""
    seen: dict[str, int | None] = {}
    for name in ("Step", "collect", "backpropagation"):
        own = [[phase(name, at, 0.5)._replace(is_auto=False)] for at in (1, 2, 5)]
        readings = [replace(reading(at), phases=p) for at, p in zip((1, 2, 5), own, strict=True)]
        seen[name] = last_view(readings).iteration_ns
    assert seen == {"Step": SECOND, "collect": None, "backpropagation": None}


def test_many_steps_are_iterations_and_few_epochs_around_them_are_not() -> None:
    readings = [
        replace(
            reading(at),
            phases=[
                phase("epoch", at, 0.9)._replace(
                    is_auto=False, ended=1 + (at > 2), last_start_ns=0
                ),
                phase("step", at, 0.5)._replace(is_auto=False),
            ],
        )
        for at in (1, 2, 5)
    ]
    assert last_view(readings).iteration_ns == SECOND


def test_nothing_is_made_of_what_was_not_measured() -> None:
    view = last_view([replace(reading(at), phases=()) for at in (1, 2)])
    assert (view.phases, view.steps_per_s, view.iteration_ns, view.gpu) == (None,) * 4
    assert "steps/s -  iteration -" in line(view)
    assert view.processes[0].role == "main"


def test_a_thread_that_entered_in_between_counts_from_then_on() -> None:
    before = reading(1)
    alone = replace(before, threads={1: before.threads[1]})
    view = last_view([alone, reading(2)])
    assert len(view.processes) == 5
    assert view.processes[1].times.running == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("running", "queue", "words"),
    [
        (0.8, 0.05, "The main process is the limit: on a CPU 80 %"),
        (0.5, 0.45, "Too few CPUs: the main process waits for one 45 %"),
        (0.2, 0.0, "The main process waits 80 % of its time, for a timer."),
        (0.45, 0.15, "No single limit"),
    ],
)
def test_what_limits(running: float, queue: float, words: str) -> None:
    def alone(at: int) -> Reading:
        only = thread(1, 10, at, running=running, queue=queue, wakers={-4: (at, at)})
        return Reading(now_ns=at * SECOND, threads={1: only})

    assert verdict(last_view([alone(1), alone(2)]).headline).startswith(words)


def test_names_are_harmless() -> None:
    hostile = [
        replace(reading(at), phases=[phase("\x1b[2J\u202e</script>", at, 0.9)]) for at in (1, 2)
    ]
    view = last_view(hostile)
    for text in (line(view), render_line(view)):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_target_without_threads_is_shown() -> None:
    empty = [Reading(now_ns=at * SECOND, threads={}) for at in (1, 2)]
    assert "Nothing ran" in line(last_view(empty))


def test_each_view_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    view = last_view([reading(at) for at in range(1, 6)])
    shown = ShownLines(as_json=True)
    for one in (view, replace(view, gpu=None)):
        shown.show(one)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["end_ns"] - first["start_ns"] == view.end_ns - view.start_ns
    assert {process["role"] for process in first["processes"]} == {"learner", "worker"}
    assert None in {phase["name"] for phase in first["phases"]}
    assert second["gpu"] is None
