"""The phases that threads were in, from the instructions of XLA that they ran."""

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
class _Rows:
    """What is known of each event of a thread, in the order of NestedRanges."""

    parent: list[int]
    end_ns: list[int]
    phase: list[int]
    module: list[int]
    is_control: list[bool]


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
    rows = _Rows(
        parent=nested.parent.tolist(),
        end_ns=nested.end_ns.tolist(),
        phase=what.phase[key].tolist(),
        module=what.module[key].tolist(),
        is_control=what.is_control[key].tolist(),
    )
    found = PhaseRanges()
    _collapse(rows)
    _count(found, rows, (nested.end_ns - nested.start_ns).tolist())
    _emit(found, rows)
    return found


def _collapse(rows: _Rows) -> None:
    """Give loops the phase of what they run, where that is one."""
    inside = [0] * len(rows.parent)
    for row in range(len(rows.parent) - 1, -1, -1):
        if rows.is_control[row] and inside[row] > 0:
            rows.phase[row] = inside[row]
        above = rows.parent[row]
        # What runs a part of a loop's body is no instruction: it is what it runs.
        mine = (rows.phase[row] or _MIXED) if rows.module[row] else inside[row]
        if above >= 0 and mine:
            inside[above] = mine if inside[above] in (0, mine) else _MIXED


def _count(found: PhaseRanges, rows: _Rows, durations_ns: list[int]) -> None:
    """Sum up the instructions that run no others: all of them, and those without a phase."""
    is_leaf = [
        bool(code) and not run for code, run in zip(rows.module, rows.is_control, strict=True)
    ]
    is_inner = _inside(rows.parent, is_leaf)
    for row, duration_ns in enumerate(durations_ns):
        if is_leaf[row] and not is_inner[row]:
            found.instruction_ns += duration_ns
            if not rows.phase[row]:
                found.unmapped_ns += duration_ns
                found.unmapped_count += 1


def _inside(parent: list[int], is_one: list[bool]) -> list[bool]:
    """Tell of each row whether one around it is such a one."""
    inside = [False] * len(parent)
    for row, above in enumerate(parent):
        inside[row] = above >= 0 and (inside[above] or is_one[above])
    return inside


def _programs_run(rows: _Rows) -> list[int]:
    """Return the code of the program of which each event runs instructions itself; 0: none."""
    runs = list(rows.module)
    for row, above in enumerate(rows.parent):
        if above >= 0 and rows.module[row] and not runs[above]:
            runs[above] = rows.module[row]
    return runs


def _emit(found: PhaseRanges, rows: _Rows) -> None:
    runs = _programs_run(rows)
    is_covered, in_program = [False] * len(runs), [False] * len(runs)
    last: dict[int, int] = {}
    for row, above in enumerate(rows.parent):
        is_covered[row] = above >= 0 and is_covered[above]
        in_program[row] = above >= 0 and in_program[above]
        if is_covered[row] or not runs[row]:
            continue
        phase, end_ns = rows.phase[row], rows.end_ns[row]
        if not in_program[row]:
            in_program[row] = True
            _add(found, row, end_ns, runs[row])
        if not phase:
            last.pop(above, None)
            continue
        is_covered[row] = True
        previous = last.get(above, -1)
        if previous >= 0 and found.code[previous] == phase:
            found.end_ns[previous] = max(found.end_ns[previous], end_ns)
            continue
        if above >= 0:
            last[above] = len(found.row)
        _add(found, row, end_ns, phase)


def _add(found: PhaseRanges, row: int, end_ns: int, code: int) -> None:
    found.row.append(row)
    found.end_ns.append(end_ns)
    found.code.append(code)
