"""The screen of top fits into any terminal, and shows what its view says."""

import io
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from live_readings import last_view, reading
from rlscope_trace.cli import top_terminal
from rlscope_trace.cli.top_screen import KEPT, KEYS, KEYS_KEPT, Screen
from rlscope_trace.cli.top_shown import ShownLines, ShownScreen
from rlscope_trace.cli.top_words import verdict


def drawn(screen: Screen, *, width: int, height: int) -> list[str]:
    """Return the lines of the screen."""
    console = Console(width=width, height=height, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(screen, end="")
    return capture.get().splitlines()


@pytest.mark.parametrize("page", ["", "t", "w", "f", "?"])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60)])
def test_it_fits(width: int, height: int, page: str) -> None:
    screen = Screen("ppo", 2, page=page)
    screen.show(last_view([reading(1), reading(2)]))
    lines = drawn(screen, width=width, height=height)
    assert len(lines) <= height
    assert max(len(text) for text in lines) <= width


def test_all_of_a_training_is_on_80_by_24() -> None:
    screen = Screen("ppo", 2)
    screen.show(last_view([reading(1), reading(2)]))
    text = "\n".join(drawn(screen, width=80, height=24))
    for shown in (
        "The learner is the limit", "500 env steps/s", "1.2 of 2 CPUs", "backpropagation", "50 %",
        "(no phase)", "worker 3", "lost 0", "q Quit", "GPU - (not measured)",
    ):  # fmt: skip
        assert shown in text, text
    # A sentence that is longer than a line goes on in the next.
    view = screen.view
    assert view is not None
    assert verdict(view.headline) in " ".join(text.split())


@pytest.mark.parametrize(
    ("width", "head", "figures"),
    [
        (104, " top  train_cartpole_really_s…  pid 4194304 and 1,000 more  10:02:03  paused"
              "  lost 1,234  recorder 1.0 %",
         "1,234,567 env steps/s   9,999 ms an iteration   128.0 of 128 CPUs   GPU -"
         " (not measured)"),
        (80, " top  train_cartpole_really_s…  10:02:03  paused  lost 1,234  recorder 1.0 %",
         "1,234,567 env steps/s   9,999 ms an iteration   128.0 of 128 CPUs   GPU -"),
        (60, "train_cartpole_really_s…  paused  lost 1,234  recorder 1.0 %",
         "1,234,567 env steps/s   9,999 ms an iteration"),
        (50, "train_cartpole_really_s…  paused  lost 1,234",
         "1,234,567 env steps/s   9,999 ms an iteration"),
    ],
)  # fmt: skip
def test_what_there_is_no_room_for_is_left_out_word_by_word(
    width: int, head: str, figures: str
) -> None:
    """What is lost, and that the screen stands still, last."""
    view = last_view([reading(1), reading(2)])
    command = "python train_cartpole_really_slowly.py"
    leader = replace(view.processes[0], pid=4_194_304, command=command)
    others = (replace(view.processes[1], pid=5),) * 1000
    screen = Screen("ppo", 128)
    screen.show(
        replace(
            view, processes=(leader, *others), elapsed_ns=36_123 * 10**9, lost=1_234,
            steps_per_s=1_234_567.0, iteration_ns=9_999_000_000, cpus=128.0,
        )
    )  # fmt: skip
    screen.is_paused = True
    lines = drawn(screen, width=width, height=24)
    assert lines[0].rstrip() == head
    assert figures in [line.rstrip() for line in lines]


def test_what_is_kept_is_said_until_the_next_key(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["", "t", "t"])
    monkeypatch.setattr(top_terminal, "pressed", lambda: next(typed))
    shown = ShownScreen("ppo")
    screen = shown._screen
    screen.show(last_view([reading(1), reading(2)]))

    def foot() -> str:
        return drawn(screen, width=80, height=24)[-1].strip()

    assert foot() == KEYS
    shown.kept()
    shown.keys()
    assert foot() == KEPT
    shown.keys()
    assert foot() == KEYS_KEPT
    assert shown.keys() == "t"


def test_a_pause_holds_the_view() -> None:
    screen = Screen("ppo", 2)
    first = last_view([reading(1), reading(2)])
    screen.show(first)
    screen.is_paused = True
    screen.show(last_view([reading(1), reading(3)]))
    assert screen.view is first
    assert len(screen.steps) == 2


def test_it_can_be_written_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a terminal whose locale has letters only, as LC_ALL=C where Python keeps to it."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    shown = ShownScreen("ppo")
    shown.show(last_view([reading(1), reading(2)]))
    stdout.write("\n".join(drawn(shown._screen, width=80, height=24)))
    stdout.flush()
    text = stdout.buffer.getvalue().decode()
    assert "worker 0        20 ##.................." in text
    assert "?" not in text.replace("? Help", "")
    ShownLines(as_json=False).show(last_view([reading(1), reading(2)]))
