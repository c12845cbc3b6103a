"""The two sides that `compare` and `gate` are given: BASE NEW, or --base TRACES --new TRACES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from rlscope_trace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_SIDES = ("--base", "--new")
_HINT = "rlscope-trace compare BASE NEW, or --base TRACES --new TRACES"


class SidesCommand(TyperCommand):
    """Takes several traces after one --base or --new, as a shell writes a pattern out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click
        """Write the option before each of them."""
        return super().parse_args(ctx, list(spread_out(args)))


def spread_out(words: Sequence[str]) -> Iterator[str]:
    """Yield --base A --base B for --base A B; what follows -- is left alone."""
    side, is_first = "", False
    for at, word in enumerate(words):
        if word == "--":
            yield from words[at:]
            return
        if word.startswith("-"):
            side, is_first = (word if word in _SIDES else ""), True
        elif side and not is_first:
            yield side
        else:
            is_first = False
        yield word


def sides_of(
    traces: Sequence[Path] | None, base: Sequence[Path] | None, new: Sequence[Path] | None
) -> tuple[list[Path], list[Path]]:
    """Return the traces of both sides. Raises UsageError where one has none."""
    traces, before, after = list(traces or ()), list(base or ()), list(new or ())
    if len(traces) == 2 and not before and not after:
        return traces[:1], traces[1:]
    if len(traces) == 1 and bool(before) != bool(after):
        # --base old*.duckdb NEW cannot be read, as NEW may be of that side; NEW --base ... can.
        return (before, traces) if before else (traces, after)
    if traces or not before or not after:
        raise UsageError("two sides are compared: before, and after", hint=_HINT)
    return before, after
