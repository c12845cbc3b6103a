"""What to think of a cost: the codes of calibration.

A new one is one entry here, and one Quality where it is found. Parameters of the sentences: subject
and detail as in calibration, and those of its numbers that the entry names, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

# Of calibration.quality. Doubtful: two estimates of one thing contradict each other, or the trace:
# a finding of every summary, though the cost is subtracted all the same.
OK, UNCERTAIN, DOUBTFUL, NOT_MEASURED = GRADES = ("ok", "uncertain", "doubtful", "not_measured")


@dataclass(frozen=True, slots=True)
class Reason:
    """What a code of calibration means."""

    grade: str
    sentence: str
    numbers: tuple[str, ...] = ()


_NOT_IN_LOOP = "the calibration knows {subject}, this recording used {detail}"

REASONS: dict[str, Reason] = {
    "few_measurements": Reason(
        UNCERTAIN, "{count} measurements are too few for an interval", ("count",)
    ),
    "zero": Reason(UNCERTAIN, "cannot be distinguished from 0"),
    "wide": Reason(UNCERTAIN, "the interval is wide; calibrate again on a quiet machine"),
    "records_lost": Reason(UNCERTAIN, "{count} records found no room", ("count",)),
    "stand_in": Reason(UNCERTAIN, "taken for {subject}, which is cheaper"),
    "failed": Reason(NOT_MEASURED, "{detail}"),
    "no_nvidia_driver": Reason(NOT_MEASURED, "no NVIDIA driver: {subject} was not found"),
    "no_working_gpu": Reason(NOT_MEASURED, "no GPU that works: {subject} -> {result}", ("result",)),
    "cuda_function_missing": Reason(NOT_MEASURED, "libcuda.so.1 has no {subject}"),
    "cuda_call_failed": Reason(NOT_MEASURED, "{subject} -> {result}", ("result",)),
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
    "measured_again": Reason(
        DOUBTFUL,
        "the calibration says {mean_ns} ns, measured again it was {again_ns}: rlscope-trace"
        " calibrate --force",
        ("mean_ns", "again_ns"),
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


GOOD = Quality()


def quality(
    code: str,
    *numbers: float,
    subject: str | None = None,
    detail: str | None = None,
) -> Quality:
    """Return the quality that a code stands for."""
    return Quality(REASONS[code].grade, code, subject, detail, tuple(numbers))
