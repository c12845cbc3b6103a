"""Compares what was recorded of workload.py with what it did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from records import (
    DEAD,
    ENTERED_FOUND,
    SLEEPING,
    UNKNOWN_STATUS,
    WAKER_INTERRUPT,
    WAKER_TIMER,
    WAKER_UNKNOWN,
)
from workload import EXIT_CODE, LOADS, SLEEP_MS

if TYPE_CHECKING:
    from records import Thread

# Of 25: one that is preempted between arming its timer and leaving the CPU may never sleep.
SLEEPS_SEEN = 23
# Of 8: a waker can be so early that the other has not yet left the CPU, and no switch is seen.
ROUNDS_SEEN = 6


class Verdict:
    """What is wrong with one recording; all of it, not the first."""

    def __init__(
        self, threads: dict[int, Thread], truth: dict[str, int], *, btf: bool, preempt_rt: bool
    ) -> None:
        self.findings: list[str] = []
        self.truth = truth
        self.btf = btf
        self.preempt_rt = preempt_rt
        self.by_tid = {thread.tid: thread for thread in threads.values()}
        missing = sorted(set(truth.values()) - set(self.by_tid))
        if missing:
            self.findings.append(f"no thread record of tids {missing}, only of {set(self.by_tid)}")
            return
        for load in LOADS:
            self.check_sleeper(load)
        self.check_family()
        self.check_talk()
        self.check_program()
        for thread in threads.values():
            self.check_life(thread)

    def expect(self, name: str, found: object, wanted: object) -> None:
        """Note a finding unless the two are the same."""
        if found != wanted:
            self.findings.append(f"{name}: {found}, not {wanted}")

    def of(self, name: str) -> Thread:
        """Return the thread that the truth calls `name`."""
        return self.by_tid[self.truth[name]]

    def check_sleeper(self, load: str) -> None:
        """Expect the sleeps, each ended by a timer."""
        sleeps = [cycle for cycle in self.of(load).cycles if cycle.off_state == SLEEPING]
        # Between the switch and the wakeup; the rest of the sleep passes before the switch.
        long = [c for c in sleeps if c.wake_ns - c.off_ns >= SLEEP_MS * 500_000]
        if len(long) < SLEEPS_SEEN:
            self.findings.append(
                f"{load}: {len(long)} of {SLEEPS_SEEN} sleeps in {len(sleeps)} cycles"
            )
        wakers = sorted({cycle.waker for cycle in long})
        # With PREEMPT_RT a spinlock of the OS kernel is slept for, and whoever has it wakes.
        if self.preempt_rt and sum(c.waker == WAKER_TIMER for c in long) >= SLEEPS_SEEN:
            return
        allowed = {WAKER_TIMER} if self.btf else {WAKER_INTERRUPT, WAKER_UNKNOWN}
        if not set(wakers) <= allowed:
            counts = {waker: sum(c.waker == waker for c in long) for waker in wakers}
            self.findings.append(f"{load}: wakers of timer wakeups: {counts}")

    def check_family(self) -> None:
        """Expect the right creators, parents and exit codes."""
        root = self.of("pid")
        self.expect("the program entered as", root.entered, ENTERED_FOUND)
        for name in (*LOADS, "partner", "thread"):
            child = self.of(name)
            self.expect(f"creator of {name}", child.creator, root.thread_id)
            if name == "thread":
                self.expect("tgid of the thread", child.tgid, root.tgid or self.truth["pid"])
            else:
                self.expect(f"tgid of {name}", child.tgid, child.tid)
                status = EXIT_CODE << 8 if self.btf else UNKNOWN_STATUS
                self.expect(f"exits of {name}", child.exits, [status])
                self.expect(f"parent of {name}", child.parent_tgid, self.truth["pid"])

    def check_talk(self) -> None:
        """Expect the two ends of the pipe to have woken each other."""
        root, partner = self.of("pid"), self.of("partner")
        for woken, waker in ((root, partner), (partner, root)):
            wanted = waker.thread_id if self.btf else WAKER_UNKNOWN
            count = sum(cycle.waker == wanted for cycle in woken.cycles)
            if count < ROUNDS_SEEN:
                found = sorted({cycle.waker for cycle in woken.cycles})
                what = f"wakeups of thread {woken.thread_id} by {wanted}, found {found}"
                self.findings.append(f"{count} of {ROUNDS_SEEN} {what}")

    def check_program(self) -> None:
        """Expect the exec of the program, the name it got by it, and its end."""
        root = self.of("pid")
        self.expect("execs", [Path(name).name for name, _ in root.execs][1:], ["busybox"])
        if root.execs and self.btf:
            self.expect("arguments", root.execs[-1][1], b"busybox\0true\0")
        self.expect("last name", root.names[-1:], ["busybox"])
        self.expect("exits of the program", root.exits, [0 if self.btf else UNKNOWN_STATUS])

    def check_life(self, thread: Thread) -> None:
        """Expect cycles without a gap, forward in time, that end with the death of the thread."""
        name = f"thread {thread.thread_id}"
        for before, after in zip(thread.cycles, thread.cycles[1:], strict=False):
            if (before.out_ns, before.out_state) != (after.off_ns, after.off_state):
                self.findings.append(f"{name}: a gap between {before} and {after}")
        for cycle in thread.cycles:
            if not cycle.off_ns <= cycle.in_ns <= cycle.out_ns or cycle.wake_ns > cycle.in_ns:
                self.findings.append(f"{name}: out of order: {cycle}")
        self.expect(f"{name}: last state", [c.out_state for c in thread.cycles][-1:], [DEAD])
