"""What to think of a cost: the codes of calibration.

A new one is one entry here, and one Quality where it is found. Parameters of the sentences: subject
and detail as in calibration, and those of its numbers that the entry names, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# Of calibration.quality. Doubtful: two estimates of one thing contradict each other, or the trace:
# a finding of every summary, though the cost is subtracted all the same.
OK, UNCERTAIN, DOUBTFUL, NOT_MEASURED = GRADES = ("ok", "uncertain", "doubtful", "not_measured")


@dataclass(frozen=True, slots=True)
class Reason:
    """What a code of calibration means."""

    grade: str
    sentence: str
    numbers: tuple[str, ...] = ()


_NO_ACCOUNT = ": the cost is that of a loop"
_NOT_IN_LOOP = "the calibration knows {subject}, this recording used {detail}"

REASONS: dict[str, Reason] = {
    "few_measurements": Reason(
        UNCERTAIN, "{count} measurements are too few for an interval", ("count",)
    ),
    "zero": Reason(UNCERTAIN, "cannot be told from 0"),
    "wide": Reason(UNCERTAIN, "the interval is wide; calibrate again on a quiet machine"),
    "records_lost": Reason(UNCERTAIN, "{count} records found no room", ("count",)),
    "stand_in": Reason(UNCERTAIN, "taken for {subject}, which is cheaper"),
    "no_account": Reason(
        UNCERTAIN, f"no account of the OS kernel was kept in the recording{_NO_ACCOUNT}"
    ),
    "no_account_in_loop": Reason(
        UNCERTAIN, f"the loop has no account of the OS kernel{_NO_ACCOUNT}"
    ),
    "failed": Reason(NOT_MEASURED, "{detail}"),
    "never_succeeded": Reason(NOT_MEASURED, "no measurement succeeded"),
    "as_any_call": Reason(NOT_MEASURED, "no loop of ours: it is probed as any call is (call)"),
    "no_probe": Reason(
        NOT_MEASURED,
        "no probe of its own: what a thread waits for is read at its switch (switch), who ends the"
        " wait at its wakeup (wakeup)",
    ),
    "no_calibration": Reason(
        NOT_MEASURED,
        "no calibration was taken for this recording: rlscope-trace calibrate TRACE",
    ),
    "calibration_damaged": Reason(NOT_MEASURED, "{subject} of the spool: {detail}"),
    "event_unknown": Reason(NOT_MEASURED, "the calibration knows no such event"),
    "other_way": Reason(
        NOT_MEASURED,
        f"{_NOT_IN_LOOP}; rlscope-trace calibrate measures all, calibrate TRACE adds them",
    ),
    "nothing_probed": Reason(NOT_MEASURED, _NOT_IN_LOOP),
    "few_windows": Reason(
        NOT_MEASURED, "in-run windows were too few: {windows} with {runs} runs",
        ("windows", "runs"),
    ),
    "few_toggled": Reason(
        NOT_MEASURED, "windows without these probes were too few: {windows}", ("windows",)
    ),
    "no_fewer_events": Reason(
        NOT_MEASURED, "no fewer events without these probes than with them"
    ),
    "measured_again": Reason(
        DOUBTFUL,
        "the calibration says {mean_ns} ns, measured again it was {again_ns}: rlscope-trace"
        " calibrate --force",
        ("mean_ns", "again_ns"),
    ),
    "measured_again_otherwise": Reason(
        DOUBTFUL,
        "the calibration says {mean_ns} ns ({subject}), measured again it was {again_ns}:"
        " rlscope-trace calibrate --force",
        ("mean_ns", "again_ns"),
    ),
    "windows_outside": Reason(
        DOUBTFUL,
        "{windows} windows of the account lie outside the recording: the clocks of the two do not"
        " agree",
        ("windows",),
    ),
    "more_runs_in_trace": Reason(
        DOUBTFUL,
        "the trace holds {known} runs in the windows, the OS kernel counted {runs}: their times do"
        " not agree",
        ("known", "runs"),
    ),
    "runs_missing": Reason(
        DOUBTFUL,
        "the OS kernel counted {runs} runs of the programs for {subject}, and the trace holds"
        " {known} of them",
        ("runs", "known"),
    ),
    "no_event_then": Reason(
        DOUBTFUL,
        "the OS kernel counted {runs} runs of the programs for {subject}, and the trace holds no"
        " such event then",
        ("runs",),
    ),
    "other_factor": Reason(
        DOUBTFUL,
        "a run of the program took {run_ns} ns in the recording and {loop_ns} ns in the loop:"
        " calibrate again",
        ("run_ns", "loop_ns"),
    ),
    "below_program": Reason(
        DOUBTFUL,
        "in the loop it costs {loop_ns} ns, less than the program in the OS kernel alone takes:"
        " calibrate again",
        ("loop_ns",),
    ),
    "toggled_otherwise": Reason(
        DOUBTFUL,
        "it is taken for {mean_ns} ns, but windows without the probes tell {found_ns} ({low_ns} .."
        " {high_ns})",
        ("mean_ns", "found_ns", "low_ns", "high_ns"),
    ),
    "calls_missing": Reason(
        DOUBTFUL,
        "the OS kernel counted {counted} calls at the probes, the trace holds {known}: what the"
        " others cost is subtracted nowhere",
        ("counted", "known"),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quality:
    """What to think of a cost: a grade, and the code that tells why, with its parameters."""

    grade: str = OK
    code: str | None = None
    subject: str | None = None
    detail: str | None = None
    numbers: tuple[float, ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """Whether something contradicts the cost."""
        return self.grade == DOUBTFUL

    @property
    def columns(self) -> tuple[str, str | None, str | None, str | None, list[float] | None]:
        """The columns of calibration: quality, code, subject, detail, numbers."""
        return self.grade, self.code, self.subject, self.detail, list(self.numbers) or None

    def of_a_cost(self) -> Quality:
        """Return why a cost that is known all the same is uncertain."""
        return replace(self, grade=UNCERTAIN) if self.grade == NOT_MEASURED else self


GOOD = Quality()


def quality(
    code: str,
    *numbers: float,
    subject: str | None = None,
    detail: str | None = None,
) -> Quality:
    """Return the quality that a code stands for."""
    return Quality(REASONS[code].grade, code, subject, detail, tuple(numbers))
