"""What comes of a trace that holds what no recorder writes: one error, whatever went wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.errors import TraceError
from rlscope_analysis.trace_file import DAMAGED_HINT, MEMORY_HINT, first_line
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What Python raises where a value is of another kind, or far from all that were meant.
_UNEXPECTED = (
    TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError,
    AssertionError, StopIteration,
)  # fmt: skip
_LONGEST = 300


@contextmanager
def damage_reported(path: Path | str, *, asks_our_own: bool = True) -> Iterator[None]:
    """Raise TraceError in place of whatever reading a trace raises; Ctrl-C stays Ctrl-C.

    asks_our_own: what is asked is not a query of the user, which can be wrong too.
    """
    try:
        yield
    except TraceError as error:
        if error.hint is None and asks_our_own:
            error.hint = DAMAGED_HINT
        raise
    except (duckdb.InterruptException, RuntimeError) as error:
        if "interrupted" in str(error).lower():
            # What becomes of a Ctrl-C that DuckDB hears before Python does.
            raise KeyboardInterrupt from error
        raise _unreadable(path, error) from error
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        raise TraceError(
            f"cannot read {path}: it takes more memory than it may: {_words(error)}",
            hint=MEMORY_HINT,
        ) from error
    except duckdb.Error as error:
        raise TraceError(f"cannot read {path}: {_words(error)}", hint=DAMAGED_HINT) from error
    except _UNEXPECTED as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path | str, error: Exception) -> TraceError:
    return TraceError(
        f"cannot read {path}: it holds what rlscope-trace does not write"
        f" ({type(error).__name__}: {_words(error)})",
        hint=DAMAGED_HINT,
    )


def _words(error: Exception) -> str:
    return printable(first_line(error))[:_LONGEST]
