"""The error of a reader of traces: the twin of rlscope_trace.errors, which it may not see."""

from shlex import quote


class TraceError(Exception):
    """A trace cannot be read, or a question cannot be answered: exit code 1.

    The message says what happened with the value that caused it; `hint` is what to do about it,
    a command wherever there is one.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class QuestionError(TraceError):
    """What was asked could be answered of no trace, as it is written: exit code 2, as for usage."""

    exit_code = 2


class UnknownRangeError(TraceError):
    """No range is called as --per says."""

    def __init__(self, per: str, *, path: object = None) -> None:
        """path: of the trace, where it is one of several."""
        where, trace = ("", "TRACE") if path is None else (f" in {path}", quote(str(path)))
        super().__init__(
            f"no operation is called {per!r}{where}",
            hint=f"what there is: rlscope-trace summarize {trace} --by operation",
        )
