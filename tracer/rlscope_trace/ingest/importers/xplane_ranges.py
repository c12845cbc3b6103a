"""The phases that threads were in, from the instructions of XLA that they ran."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.ingest.importers.xplane_file import Key
from rlscope_trace.ingest.importers.xplane_hlo import Program
from rlscope_trace.ingest.importers.xplane_phases import control_of, phases_of
from rlscope_trace.ingest.store.nested_ranges import NestedRanges

_MIXED = -1


@dataclass(slots=True)
class Instructions:
    """What the programs of a file say of its events: by key, equally long."""

    names: list[str]
    """Of phases and of programs, by their codes less one."""
    phase: NDArray[np.int64]
    """Code of the phase; 0: none, or no instruction."""
    module: NDArray[np.int64]
    """Code of the program whose instruction it is; 0: it is none."""
    is_control: NDArray[np.bool_]
    """Whether it runs others: its own time is not work."""


@dataclass(slots=True)
class PhaseRanges:
    """Ranges of threads, equally long lists; and how long instructions without a phase took."""

    row: list[int] = field(default_factory=list)
    """The row of the events that a range begins with."""
    end_ns: list[int] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    """Of Instructions.names."""
    instruction_ns: int = 0
    unmapped_ns: int = 0
    unmapped_count: int = 0


def instructions_of(keys: list[Key], programs: dict[int, Program]) -> Instructions:
    """Find the phase of each key."""
    codes: dict[str, int] = {}
    by_name = {program.name: number for number, program in programs.items()}
    found: dict[int, tuple[dict[str, str], set[str]]] = {}
    phase, module, control = [], [], []
    for key in keys:
        number = key.program if key.program in programs else by_name.get(key.module or "")
        if key.hlo_op is None or key.module is None:
            phase.append(0)
            module.append(0)
            control.append(False)
            continue
        if number is not None and number not in found:
            found[number] = (phases_of(programs[number]), control_of(programs[number]))
        phases, controls = found[number] if number is not None else ({}, set())
        name = phases.get(key.hlo_op)
        phase.append(codes.setdefault(name, len(codes) + 1) if name else 0)
        module.append(codes.setdefault(key.module, len(codes) + 1))
        control.append(key.hlo_op in controls)
    return Instructions(
        list(codes),
        np.array(phase, dtype=np.int64),
        np.array(module, dtype=np.int64),
        np.array(control, dtype=bool),
    )


def phase_ranges(nested: NestedRanges, key: NDArray[np.int64], what: Instructions) -> PhaseRanges:
    """Return the ranges of phases, and around them those of programs.

    key: per row of `nested`, in their order. Instructions of one phase that follow each other in
    the same loop or executor are one range, with what lies between them; a loop that has one phase
    only is part of it. Time of the program's range itself has no phase.
    """
    parent = nested.parent.tolist()
    own = what.phase[key].tolist()
    module = what.module[key].tolist()
    control = what.is_control[key].tolist()
    found = PhaseRanges()
    _collapse(parent, own, module, control)
    _count(found, nested, parent, own, module, control)
    _emit(found, nested, parent, own, module)
    return found


def _collapse(
    parent: list[int], own: list[int], module: list[int], control: list[bool]
) -> None:
    """Give loops the phase of what they run, where that is one."""
    inside = [0] * len(parent)
    for row in range(len(parent) - 1, -1, -1):
        if control[row] and inside[row] > 0:
            own[row] = inside[row]
        above = parent[row]
        if above < 0 or not module[row]:
            continue
        mine = own[row] or _MIXED
        inside[above] = mine if inside[above] in (0, mine) else _MIXED


def _count(
    found: PhaseRanges,
    nested: NestedRanges,
    parent: list[int],
    own: list[int],
    module: list[int],
    control: list[bool],
) -> None:
    """Sum up the instructions that run no others: all of them, and those without a phase."""
    durations = (nested.end_ns - nested.start_ns).tolist()
    is_inner = _inside(parent, lambda row: bool(module[row]) and not control[row])
    for row, duration_ns in enumerate(durations):
        if module[row] and not control[row] and not is_inner[row]:
            found.instruction_ns += duration_ns
            if not own[row]:
                found.unmapped_ns += duration_ns
                found.unmapped_count += 1


def _inside(parent: list[int], is_one: Callable[[int], bool]) -> list[bool]:
    """Tell of each row whether one around it is such a one."""
    inside = [False] * len(parent)
    for row, above in enumerate(parent):
        inside[row] = above >= 0 and (inside[above] or is_one(above))
    return inside


def _emit(
    found: PhaseRanges,
    nested: NestedRanges,
    parent: list[int],
    own: list[int],
    module: list[int],
) -> None:
    ends = nested.end_ns.tolist()
    runs = [0] * len(parent)
    for row, above in enumerate(parent):
        if module[row] and above >= 0 and not module[above] and not runs[above]:
            runs[above] = module[row]
    is_covered, in_program = [False] * len(parent), [False] * len(parent)
    last: dict[int, int] = {}
    for row, above in enumerate(parent):
        is_covered[row] = above >= 0 and is_covered[above]
        in_program[row] = above >= 0 and in_program[above]
        if is_covered[row] or not (module[row] or runs[row]):
            continue
        if not in_program[row]:
            in_program[row] = True
            _add(found, row, ends[row], module[row] or runs[row])
        if not own[row]:
            last.pop(above, None)
            continue
        is_covered[row] = True
        previous = last.get(above, -1)
        if previous >= 0 and found.code[previous] == own[row]:
            found.end_ns[previous] = max(found.end_ns[previous], ends[row])
            continue
        if above >= 0:
            last[above] = len(found.row)
        _add(found, row, ends[row], own[row])


def _add(found: PhaseRanges, row: int, end_ns: int, code: int) -> None:
    found.row.append(row)
    found.end_ns.append(end_ns)
    found.code.append(code)
