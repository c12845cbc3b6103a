"""The words of `top`: what limits a program, a figure, a name; and its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.wording import printable, role_words

if TYPE_CHECKING:
    from rlscope_trace.record.live.view import Headline, View

NOT_MEASURED = "-"


def percent(share: float | None) -> str:
    """Word a share."""
    return NOT_MEASURED if share is None else f"{100 * share:.0f} %"


def duration(ns: int | None) -> str:
    """Word a time with three digits."""
    if ns is None:
        return NOT_MEASURED
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} us"
    return f"{ns / 1e6:,.0f} ms" if ns < 10_000_000_000 else f"{ns / 1e9:,.1f} s"


def clock(ns: int) -> str:
    """Word how long it has been going on: 00:18, 1:02:03."""
    minutes, seconds = divmod(ns // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def called(role: str, number: int | None) -> str:
    """Name a process: the learner, worker 3."""
    return role if number is None else f"{role} {number}"


def verdict(found: Headline) -> str:
    """Word what limits the program in this window."""
    phase = f", {percent(found.phase_share)} {printable(found.phase)}" if found.phase else ""
    who = role_words(found.role)
    if found.code == "nothing":
        return "Nothing ran in this window."
    if found.code == "cpu_queue":
        return f"Too few CPUs: the {who} waits for one {percent(found.share)} of its time."
    if found.code == "leader_limits":
        peers = f"; the {found.peer} wait for it {percent(found.peer_share)}" if found.peer else ""
        return f"The {who} is the limit: on a CPU {percent(found.share)}{phase}{peers}."
    if found.code == "leader_waits":
        return f"The {who} waits {percent(found.share)} of its time{_whom(found.peer)}."
    return (
        f"No single limit: the {who} is on a CPU {percent(found.share)}{phase}, and waits"
        f" {percent(found.peer_share)}."
    )


def _whom(peer: str) -> str:
    of_machine = {
        "timer": ", for a timer",
        "device": ", for a device",
        "outside": ", for a process outside the trace",
        "interrupt": ", for a timer or a device",
        "unknown": "",
        "": "",
    }
    return of_machine.get(peer, f", for the {role_words(peer)}")


def line(view: View) -> str:
    """Word a window in one line, for where there is no terminal."""
    steps = NOT_MEASURED if view.steps_per_s is None else f"{view.steps_per_s:,.0f}"
    return (
        f"{clock(view.elapsed_ns)}  {verdict(view.headline)}  steps/s {steps}"
        f"  iteration {duration(view.iteration_ns)}  CPUs {view.cpus:.1f}"
        f"  GPU {percent(gpu(view))}  lost {view.lost:,}  recorder {100 * view.recorder:.1f} %"
    )


def gpu(view: View) -> float | None:
    """Return how busy GPUs are: by the driver, or else by what was recorded."""
    return view.gpu if view.gpu_utilization is None else view.gpu_utilization
