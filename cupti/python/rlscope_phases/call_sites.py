"""What a forward pass means, by the place in the program that it was called from."""

import sys
from _thread import _local

from rlscope_phases import core

# What the place led to: a step of the environment; learning; acting and then learning in the same
# gap (the value of the last observation of a rollout).
ACTS, LEARNS, ACTS_THEN_LEARNS = range(3)
FRAMES = 10
MAX_SITES = 4096


class CallSites:
    """The places seen so far, and the forward passes of each thread that are not judged yet."""

    def __init__(self, is_grad_enabled, after_hooks, key, torch_module):
        self.is_grad_enabled = is_grad_enabled
        self.after_hooks = after_hooks
        self.key = key
        self.torch_module = torch_module
        self.has_seen_forward = False
        self.meanings = {}
        # A code object that is freed gives its address to another.
        self.kept_codes = {}
        self.acting_batches = set()
        self.acts_without_grad = False
        self.local = _local()
        self.ending = None
        native = core.native
        self.is_watching, self.decide, self.lean = native.is_watching, native.decide, native.lean

    def on_forward(self, module, args):
        """Take a forward pass that is about to run; put into torch's hooks and out again."""
        if not self.is_watching():
            return
        try:
            self._take(module, args)
        except Exception:
            core.native.watch(None, None, None, None)

    def _take(self, module, args):
        frame = sys._getframe(2)
        while frame.f_globals is self.torch_module:
            frame = frame.f_back
        first, place = frame, []
        for _ in range(FRAMES):
            place.append(id(frame.f_code))
            place.append(frame.f_lasti)
            frame = frame.f_back
            if frame is None:
                break
        place = tuple(place)
        meaning = self.meanings.get(place)
        if meaning is ACTS:
            self.decide(core.INFERENCE)
        elif meaning is LEARNS:
            self.decide(core.BACKPROPAGATION)
        elif meaning is ACTS_THEN_LEARNS:
            self.lean(core.INFERENCE)
            self._await_end(module)
        else:
            self._judge(place, first, args)

    def _judge(self, place, frame, args):
        """Take a forward pass from a place not seen before: suppose, and wait what it leads to."""
        if not self.has_seen_forward:
            self.has_seen_forward = True
            core.native.default_gap(core.NONE)
        if len(self.meanings) >= MAX_SITES:
            core.native.watch(None, None, None, None)
            return
        while frame is not None:
            self.kept_codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back
        has_grad = self.is_grad_enabled()
        batch = _batch_size(args)
        is_learning = core.native.phase() == core.BACKPROPAGATION or core.native.is_sampled()
        pending = self.local.__dict__.setdefault("pending", [])
        pending.append((place, has_grad, batch, is_learning))
        is_learning = is_learning or (has_grad and self.acts_without_grad)
        core.native.suppose(core.BACKPROPAGATION if is_learning else core.INFERENCE)

    def resolve(self, phase):
        """Take what the forward passes since the last step led to: simulation or learning."""
        pending = self.local.__dict__.setdefault("pending", [])
        last_batch = pending[-1][2] if pending else 0
        for place, has_grad, batch, is_learning in pending:
            if phase == core.SIMULATION:
                # One that learning led to, of another size than the acting one: not known yet.
                if is_learning and batch != last_batch:
                    continue
                self.meanings[place] = ACTS
                self.acting_batches.add(batch)
                self.acts_without_grad = self.acts_without_grad or not has_grad
            elif has_grad or is_learning or batch not in self.acting_batches:
                self.meanings[place] = LEARNS
            else:
                self.meanings[place] = ACTS_THEN_LEARNS
        pending.clear()

    def _await_end(self, module):
        """After the acting that ends a rollout come returns and advantages: data."""
        self.ending = module
        self.after_hooks[self.key] = self._on_end

    def _on_end(self, module, args, output):
        if module is self.ending:
            self.ending = None
            self.after_hooks.pop(self.key, None)
            if core.native.phase() == core.INFERENCE:
                self.lean(core.DATA)


def _batch_size(args):
    """Return the first dimension of the first tensor, 0 if it has no other."""
    shape = getattr(args[0], "shape", ()) if args else ()
    return int(shape[0]) if len(shape) > 1 else 0
