"""What a forward pass means, by the place in the program that it was called from."""

import sys
from _thread import _local

from rlscope_phases import core, evaluation

# What the place led to: a step of the environment; learning; acting and then learning in the same
# gap (the value of the last observation of a rollout): returns and advantages come between.
ACTS, LEARNS, ACTS_THEN_LEARNS = core.INFERENCE, core.BACKPROPAGATION, core.DATA
# As in place.c.
FRAMES = 4
MAX_PENDING = 64
# A model that is asked so often from one place, while nothing is learned, writes or searches.
REPEATED = 3


class CallSites:
    """The places seen so far, and the forward passes of each thread that are not judged yet."""

    def __init__(self, torch):
        self.is_grad_enabled = torch.is_grad_enabled
        self.is_tracing = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.has_seen_forward = False
        # A code object that is freed gives its address to another.
        self.kept_codes = {}
        self.acting_batches = set()
        # Of training forward passes, in threads without an environment.
        self.learning_batches = set()
        self.acts_without_grad = False
        self.local = _local()

    def judge(self, place, arguments):
        """Return what a forward pass seems to be, and wait what it leads to.

        Called for places that are not settled yet, with the arguments of the call, the module
        first; core.NONE: the next one is to be judged as well.
        """
        # While torch traces, asking for a shape becomes part of what is traced.
        if self.is_tracing():
            return core.NONE
        if not self.has_seen_forward:
            self.has_seen_forward = True
            core.native.default_gap(core.NONE)
        frame = sys._getframe(1)
        for _ in range(FRAMES):
            self.kept_codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back or frame
        steps_environment, _, is_jax, _ = core.native.state()
        has_grad = not is_jax and self.is_grad_enabled()
        batch = _batch_size(arguments)
        if steps_environment:
            is_learning = core.native.phase() == core.BACKPROPAGATION or core.native.is_sampled()
        else:
            is_learning = has_grad
        pending = self.local.__dict__.setdefault("pending", [])
        is_early = core.native.is_early()
        # Before anything else it may be no more than a try.
        if has_grad and is_early:
            return core.NONE
        if len(pending) == MAX_PENDING and is_early:
            self._resolve_alone(pending, core.NONE, False)
            pending.clear()
        pending.append((place, has_grad, batch, is_learning, id(arguments[0]) if arguments else 0))
        # Others are functions that are compiled.
        if arguments and hasattr(arguments[0], "training"):
            evaluation.note_forward(arguments)
        is_learning = is_learning or (has_grad and self.acts_without_grad)
        phase = core.BACKPROPAGATION if is_learning else core.INFERENCE
        core.native.suppose(phase)
        # With so many, a program that has stopped stepping its environment, perhaps for good.
        return core.NONE if len(pending) < MAX_PENDING else phase

    def resolve(self, phase):
        """Take what the forward passes since the last step led to.

        Simulation, learning, or, in a thread without an environment, data or a wait.
        """
        settle = core.native.settle
        evaluation.note_result(phase == core.SIMULATION)
        pending = self.local.__dict__.setdefault("pending", [])
        steps_environment, acts_by_waiting, *_ = core.native.state()
        if not steps_environment and phase != core.SIMULATION:
            self._resolve_alone(pending, phase, acts_by_waiting)
            pending.clear()
            return
        last_batch = pending[-1][2] if pending else 0
        for place, has_grad, batch, is_learning, _ in pending:
            if phase == core.SIMULATION:
                # One that learning led to, of another size than the acting one: not known yet.
                if is_learning and batch != last_batch:
                    continue
                settle(place, ACTS)
                self.acting_batches.add(batch)
                self.acts_without_grad = self.acts_without_grad or not has_grad
            # Of what is compiled it is not known how much it sees.
            elif has_grad or is_learning or (batch and batch not in self.acting_batches):
                settle(place, LEARNS)
            else:
                settle(place, ACTS_THEN_LEARNS)
        pending.clear()

    def _resolve_alone(self, pending, phase, acts_by_waiting):
        """Settle those of a thread that steps no environment.

        Where something else is waited for next they led to no learning. Before learning those
        without gradients are part of it if they see as much as training does: target networks,
        but not a model that is asked again and again.
        """
        if phase != core.BACKPROPAGATION:
            for place, *_ in pending:
                core.native.settle(place, ACTS)
            return
        self.learning_batches.update(batch for _, has_grad, batch, *_ in pending if has_grad)
        repeated = _repeated(
            (place, module) for place, has_grad, *_, module in pending if not has_grad
        )
        for place, has_grad, batch, _, module in pending:
            is_target = batch in self.learning_batches and (place, module) not in repeated
            if has_grad or is_target:
                core.native.settle(place, LEARNS)
            else:
                core.native.settle(place, ACTS_THEN_LEARNS if acts_by_waiting else ACTS)


def _repeated(calls):
    counts = {}
    for call in calls:
        counts[call] = counts.get(call, 0) + 1
    return {call for call, count in counts.items() if count >= REPEATED}


def _batch_size(arguments):
    """Return the first dimension of the first tensor, 0 if it has no other."""
    shape = getattr(arguments[1], "shape", ()) if len(arguments) > 1 else ()
    # A symbol where torch runs the program without numbers.
    return shape[0] if len(shape) > 1 and type(shape[0]) is int else 0
