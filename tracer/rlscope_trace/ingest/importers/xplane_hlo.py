"""Programs of XLA as a profile carries them (HloProto): which instruction comes from where."""

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

_MAX_BYTES = 64 << 20
_MAX_INSTRUCTIONS = 300_000
_MAX_OPERANDS = 1_000_000
_MAX_FRAMES = 300_000
_MAX_STACK = 200


@dataclass(slots=True)
class Room:
    """What the programs of one file may still take: what is beyond has no phase."""

    bytes_left: int = _MAX_BYTES
    instructions: int = _MAX_INSTRUCTIONS
    operands: int = _MAX_OPERANDS
    frames: int = _MAX_FRAMES
    is_short: bool = False

    def take(self, kind: str, count: int = 1) -> bool:
        """Take room; false: there is not enough."""
        left = getattr(self, kind) - count
        if left < 0:
            self.is_short = True
            return False
        setattr(self, kind, left)
        return True


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

    def files_of(self, instruction: Instruction) -> Iterator[str]:
        """Yield the files of its stack, the innermost first."""
        if instruction.file:
            yield instruction.file
        frame = instruction.frame
        for _ in range(_MAX_STACK):
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


def read_program(data: bytes, span: Span, room: Room) -> Program | None:
    """Read an HloProto; None: it holds no module, or there is no room. Raises WireError."""
    module = next(spans(data, 1, span), None)
    if module is None or not room.take("bytes_left", module[1] - module[0]):
        return None
    program = Program()
    for number, value in fields(data, *module):
        if number == 1:
            program.name = text(data, value)
        elif number == 3 and isinstance(value, tuple):
            # Also empty ones take room.
            if not room.take("instructions"):
                break
            key, instructions = _computation(data, value, room)
            program.computations[key] = instructions
        elif number in _FRAME_INDEX and isinstance(value, tuple):
            _frames(data, value, program, room)
    return program


# stack_frame_index of HloModuleProto.
_FRAME_INDEX = (17,)


def _computation(data: bytes, span: Span, room: Room) -> tuple[int, list[Instruction]]:
    key = 0
    found: list[Instruction] = []
    for number, value in fields(data, *span):
        if number == 2 and isinstance(value, tuple):
            if not room.take("instructions"):
                break
            found.append(_instruction(data, value, room))
        elif number == 5 and isinstance(value, int):
            key = value
    return key, found


def _instruction(data: bytes, span: Span, room: Room) -> Instruction:
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
            found.operands += _references(data, value, room)
        elif number == 38:
            found.called += _references(data, value, room)
    return found


def _references(data: bytes, value: Value, room: Room) -> list[int]:
    # Each takes a byte at least.
    most = 1 if isinstance(value, int) else value[1] - value[0]
    return numbers(data, value) if room.take("operands", most) else []


def _metadata(data: bytes, span: Span, to: Instruction) -> None:
    for number, value in fields(data, *span):
        if number == 2:
            to.op_name = text(data, value)
        elif number == 3:
            to.file = text(data, value)
        elif number == 15 and isinstance(value, int):
            to.frame = value


def _frames(data: bytes, span: Span, program: Program, room: Room) -> None:
    for number, value in fields(data, *span):
        if not room.take("frames"):
            return
        if number == 1:
            program.file_names.append(text(data, value))
        elif number in (3, 4) and isinstance(value, tuple):
            first = second = 0
            for key, part in fields(data, *value):
                if isinstance(part, int):
                    first, second = (part if key == 1 else first), (part if key == 2 else second)
            if number == 3:
                program.locations.append(first)
            else:
                program.frames.append((first, second))
