"""Which phase of reinforcement learning an instruction of XLA belongs to.

By what the compiler kept of where it comes from: the files of the Python stack under which JAX
traced it, and the transformations in its op_name. The rules, in this order:

1. A file of an environment library in the stack: simulation.
2. A file of an optimizer library: optimizer.
3. transpose( or jvp( in the op_name: backpropagation (its backward and its forward half).
4. A file of a network library: inference.
5. An instruction that is made of others (a fusion) is what most of those are.
6. An instruction of which nothing is known (a copy that the compiler added) is what uses it, or
   what it uses, where these agree.
7. What then remains in the body of a loop that steps environments is inference (sampling the
   actions), in one that has gradients backpropagation (losses), as docs/phases.md defines these.
8. A loop is what all that it runs is; others have no phase, but what they run.
"""

from collections import Counter
from collections.abc import Iterable

from rlscope_trace.ingest.importers.xplane_hlo import Instruction, Program

SIMULATION, INFERENCE = "simulation", "inference"
BACKPROPAGATION, OPTIMIZER = "backpropagation", "optimizer"

# Parts of the paths of files. A further library is one more entry.
_FILES = (
    (
        SIMULATION,
        (
            "/gymnax/environments/", "/brax/envs/", "/brax/mjx/", "/brax/positional/",
            "/brax/spring/", "/brax/generalized/", "/mujoco/mjx/", "/mujoco_playground/",
            "/jumanji/", "/pgx/", "/craftax/", "/jaxmarl/environments/", "/navix/", "/xminigrid/",
            "/kinetix/environment/",
        ),
    ),
    (OPTIMIZER, ("/optax/", "/flax/optim/", "/jax/example_libraries/optimizers.py")),
)  # fmt: skip
_NETWORKS = ("/flax/", "/haiku/", "/equinox/", "/brax/training/networks", "/distrax/")
_GRADIENTS = ("transpose(", "jvp(")

# Rounds of rules 5 and 6: one for each level of instructions that say nothing themselves.
_ROUNDS = 8
_MAX_LOOPS_DEEP = 50
_CONTROL = frozenset({"while", "conditional", "call"})
# These take no time.
_FREE = frozenset({"parameter", "tuple", "get-tuple-element", "constant", "bitcast"})
# In place of a phase: an instruction that takes time and has none.
_NONE = ""


def phases_of(program: Program) -> dict[str, str]:
    """Return the phase of each instruction by its name; one without is missing.

    Loops, calls and conditions are, too, unless all they run is of one phase.
    """
    known = _by_metadata(program)
    for _ in range(_ROUNDS):
        if not (_by_parts(program, known) + _by_neighbours(program, known)):
            break
    _by_loop(program, known)
    for _ in range(_ROUNDS):
        if not (_by_parts(program, known) + _by_neighbours(program, known)):
            break
    _by_body(program, known)
    return {
        one.name: known[one.number]
        for instructions in program.computations.values()
        for one in instructions
        if one.number in known
    }


def control_of(program: Program) -> set[str]:
    """Return the names of the instructions that run others: loops, calls and conditions."""
    return {
        one.name
        for instructions in program.computations.values()
        for one in instructions
        if one.opcode in _CONTROL
    }


def _by_metadata(program: Program) -> dict[int, str]:
    """Return the phases that instructions tell themselves, by number (rules 1 to 4)."""
    of_frame: dict[tuple[int, str], tuple[str | None, bool]] = {}
    known: dict[int, str] = {}
    for instructions in program.computations.values():
        for one in instructions:
            key = (one.frame, one.file)
            if key not in of_frame:
                of_frame[key] = _of_files(list(program.files_of(one)))
            phase, in_network = of_frame[key]
            if phase is None and any(sign in one.op_name for sign in _GRADIENTS):
                phase = BACKPROPAGATION
            if phase is None and in_network:
                phase = INFERENCE
            if phase is not None:
                known[one.number] = phase
    return known


def _of_files(files: list[str]) -> tuple[str | None, bool]:
    """Return the phase that a stack tells, and whether it is one of a network."""
    for phase, parts in _FILES:
        if any(part in name for name in files for part in parts):
            return phase, False
    return None, any(part in name for name in files for part in _NETWORKS)


def _most(phases: Iterable[str | None]) -> str | None:
    counts = Counter(phase for phase in phases if phase)
    return counts.most_common(1)[0][0] if counts else None


def _by_parts(program: Program, known: dict[int, str]) -> int:
    """Give what is made of others the phase of most of them (rule 5); returns how many."""
    found = 0
    for instructions in program.computations.values():
        for one in instructions:
            if not one.called or (one.opcode in _CONTROL):
                continue
            parts = (
                known.get(part.number)
                for called in one.called
                for part in program.computations.get(called, ())
            )
            phase = _most(parts)
            if phase is not None and known.get(one.number) != phase:
                found += one.number not in known
                known[one.number] = phase
    return found


def _by_neighbours(program: Program, known: dict[int, str]) -> int:
    """Give what says nothing the phase of its users or operands (rule 6); returns how many."""
    found = 0
    for instructions in program.computations.values():
        users: dict[int, list[Instruction]] = {}
        for one in instructions:
            for operand in one.operands:
                users.setdefault(operand, []).append(one)
        for one in instructions:
            if one.number in known or one.op_name or one.opcode in _CONTROL:
                continue
            agreed = {known.get(user.number) for user in users.get(one.number, ())}
            if len(agreed) != 1 or None in agreed:
                agreed = {known[number] for number in one.operands if number in known}
            if len(agreed) == 1 and (phase := agreed.pop()) is not None:
                known[one.number] = phase
                found += 1
    return found


def _by_loop(program: Program, known: dict[int, str]) -> None:
    """Give the rest of a body the phase that its loop has (rule 7)."""
    inside = _phases_inside(program, known)
    rest = {
        key: _rest_of({known.get(one.number) for one in instructions}, inside[key])
        for key, instructions in program.computations.items()
    }
    # A loop of which nothing is known, in such a body: random numbers are often one.
    for _ in range(_ROUNDS):
        before = dict(rest)
        for key, instructions in program.computations.items():
            for one in instructions:
                for called in one.called if one.opcode in _CONTROL and rest[key] else ():
                    if called in inside and inside[called] <= {_NONE}:
                        rest[called] = rest[key]
        if rest == before:
            break
    for key, instructions in program.computations.items():
        phase = rest[key]
        if phase is None:
            continue
        for one in instructions:
            if one.opcode not in _CONTROL:
                known.setdefault(one.number, phase)


def _rest_of(own: set[str | None], inside: set[str]) -> str | None:
    """Return what the rest of a body is: by its own instructions, and all that it runs."""
    if SIMULATION in own and BACKPROPAGATION not in inside:
        return INFERENCE
    if BACKPROPAGATION in own and SIMULATION not in inside:
        return BACKPROPAGATION
    return None


def _phases_inside(program: Program, known: dict[int, str]) -> dict[int, set[str]]:
    """Return the phases in each computation and in what it runs."""
    inside = {
        key: {
            known.get(one.number, _NONE)
            for one in instructions
            if one.number in known or one.opcode not in (_CONTROL | _FREE)
        }
        for key, instructions in program.computations.items()
    }
    for _ in range(_MAX_LOOPS_DEEP):
        is_changed = False
        for key, instructions in program.computations.items():
            for one in instructions:
                for called in one.called if one.opcode in _CONTROL else ():
                    more = inside.get(called, set()) - inside[key]
                    inside[key] |= more
                    is_changed |= bool(more)
        if not is_changed:
            break
    return inside


def _by_body(program: Program, known: dict[int, str]) -> None:
    """Give loops, calls and conditions the phase of all they run, where that is one."""
    inside = _phases_inside(program, known)
    for instructions in program.computations.values():
        for one in instructions:
            if one.opcode not in _CONTROL:
                continue
            phases = set[str]().union(*(inside.get(called, {_NONE}) for called in one.called))
            if len(phases) == 1 and (phase := phases.pop()) != _NONE:
                known[one.number] = phase
