"""Programs of XLA as a profile carries them (HloProto): which instruction comes from where."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlscope_trace.ingest.importers.protobuf_wire import (
    Span,
    Value,
    fields,
    numbers,
    spans,
    text,
)

# What is kept of a program: a bigger one is mapped as far as that goes.
MAX_INSTRUCTIONS = 500_000
_MAX_FRAMES = 200


@dataclass(slots=True)
class Instruction:
    """One instruction of a program after optimisation."""

    name: str = ""
    opcode: str = ""
    op_name: str = ""
    """The path of calls in the traced Python program: jit(train)/while/body/jvp(Net)/dot."""
    frame: int = 0
    """Where it was written: a key of Program.frames; 0: not known."""
    file: str = ""
    """The file it was written in, of programs that carry no stacks."""
    number: int = 0
    operands: list[int] = field(default_factory=list)
    called: list[int] = field(default_factory=list)
    """Computations: the body of a loop, what a fusion consists of."""


@dataclass(slots=True)
class Program:
    """A module of XLA."""

    name: str = ""
    computations: dict[int, list[Instruction]] = field(default_factory=dict)
    file_names: list[str] = field(default_factory=list)
    locations: list[int] = field(default_factory=list)
    """By location, from 1: the number of its file, from 1."""
    frames: list[tuple[int, int]] = field(default_factory=list)
    """By frame, from 1: its location, and the frame that called it; 0: none."""
    is_cut: bool = False

    def files_of(self, instruction: Instruction) -> Iterator[str]:
        """Yield the files of its stack, the innermost first."""
        if instruction.file:
            yield instruction.file
        frame = instruction.frame
        for _ in range(_MAX_FRAMES):
            if not 0 < frame <= len(self.frames):
                return
            location, parent = self.frames[frame - 1]
            if 0 < location <= len(self.locations):
                name = self.locations[location - 1]
                if 0 < name <= len(self.file_names):
                    yield self.file_names[name - 1]
            if parent == frame:
                return
            frame = parent


def read_program(data: bytes, span: Span) -> Program | None:
    """Read an HloProto; None: it holds no module. Raises WireError."""
    module = next(spans(data, 1, span), None)
    if module is None:
        return None
    program = Program()
    count = 0
    for number, value in fields(data, *module):
        if number == 1:
            program.name = text(data, value)
        elif number == 3 and isinstance(value, tuple):
            key, instructions = _computation(data, value, MAX_INSTRUCTIONS - count)
            program.computations[key] = instructions
            count += len(instructions)
        elif number in _FRAME_INDEX and isinstance(value, tuple):
            _frames(data, value, program)
    program.is_cut = count >= MAX_INSTRUCTIONS
    return program


# stack_frame_index of HloModuleProto.
_FRAME_INDEX = (17,)


def _computation(data: bytes, span: Span, most: int) -> tuple[int, list[Instruction]]:
    key = 0
    found: list[Instruction] = []
    for number, value in fields(data, *span):
        if number == 2 and isinstance(value, tuple):
            if len(found) < most:
                found.append(_instruction(data, value))
        elif number == 5 and isinstance(value, int):
            key = value
    return key, found


def _instruction(data: bytes, span: Span) -> Instruction:
    found = Instruction()
    for number, value in fields(data, *span):
        if number == 1:
            found.name = text(data, value)
        elif number == 2:
            found.opcode = text(data, value)
        elif number == 7 and isinstance(value, tuple):
            _metadata(data, value, found)
        elif number == 35 and isinstance(value, int):
            found.number = value
        elif number == 36:
            found.operands += numbers(data, value)
        elif number == 38:
            found.called += numbers(data, value)
    return found


def _metadata(data: bytes, span: Span, to: Instruction) -> None:
    for number, value in fields(data, *span):
        if number == 2:
            to.op_name = text(data, value)
        elif number == 3:
            to.file = text(data, value)
        elif number == 15 and isinstance(value, int):
            to.frame = value


def _frames(data: bytes, span: Span, program: Program) -> None:
    for number, value in fields(data, *span):
        if number == 1:
            program.file_names.append(text(data, value))
        elif number in (3, 4) and isinstance(value, tuple):
            part: defaultdict[int, Value] = defaultdict(int, fields(data, *value))
            first, second = (_whole(part[key]) for key in (1, 2))
            if number == 3:
                program.locations.append(first)
            else:
                program.frames.append((first, second))


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0
