"""What a forward pass means, by the place in the program that it was called from."""

import sys
from _thread import _local

from rlscope_phases import core

# What the place led to: a step of the environment; learning; acting and then learning in the same
# gap (the value of the last observation of a rollout).
ACTS, LEARNS, ACTS_THEN_LEARNS = range(3)
FRAMES = 4
MAX_SITES = 4096
MAX_PENDING = 64
MAX_PASSED_OVER = 200


class CallSites:
    """The places seen so far, and the forward passes of each thread that are not judged yet."""

    def __init__(self, torch, after_hooks, key, torch_frames):
        self.is_grad_enabled = torch.is_grad_enabled
        self.is_tracing = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.call_code = torch.nn.Module._call_impl.__code__
        self.after_hooks = after_hooks
        self.key = key
        self.torch_frames = torch_frames
        self.has_seen_forward = False
        self.meanings = {}
        # A code object that is freed gives its address to another.
        self.kept_codes = {}
        self.acting_batches = set()
        self.acts_without_grad = False
        self.local = _local()
        self.ending = None
        self.passed_over = 0

    def make_hook(self):
        """Return what is put into torch's hooks, for one forward pass, and taken out again.

        It runs once between two steps of an environment, and is written for speed: four frames,
        unrolled.
        """
        meanings, getframe, torch_frames = self.meanings, sys._getframe, self.torch_frames
        native = core.native
        is_watching, decide = native.is_watching, native.decide

        def on_forward(module, args):
            if not is_watching():
                return
            try:
                a = getframe(torch_frames)
                b = a.f_back or a
                c = b.f_back or b
                d = c.f_back or c
                place = (
                    id(a.f_code), a.f_lasti, id(b.f_code), b.f_lasti, id(c.f_code), c.f_lasti,
                    d.f_lasti,
                )  # fmt: skip
                meaning = meanings.get(place)
                if meaning is ACTS:
                    decide(core.INFERENCE)
                elif meaning is LEARNS:
                    decide(core.BACKPROPAGATION)
                elif meaning is ACTS_THEN_LEARNS:
                    native.lean(core.INFERENCE)
                    self._await_end(module)
                    self.passed_over = 0
                else:
                    self._judge(place, a, args)
            except Exception:
                native.watch(None, None, None, None)

        return on_forward

    def _is_nested(self, frame):
        """Return whether the caller is itself called by a module: the outermost one counts."""
        while frame is not None:
            if frame.f_code is self.call_code:
                return True
            frame = frame.f_back
        return False

    def _judge(self, place, frame, args):
        """Take a forward pass from a place not seen before: suppose, and wait what it leads to."""
        # While torch traces, asking for a shape becomes part of what is traced.
        if self._is_nested(frame) or self.is_tracing():
            self.passed_over += 1
            if self.passed_over >= MAX_PASSED_OVER:
                # The whole program runs inside a module: no more until the next boundary.
                core.native.decide(core.native.phase())
            return
        self.passed_over = 0
        if not self.has_seen_forward:
            self.has_seen_forward = True
            core.native.default_gap(core.NONE)
        if len(self.meanings) >= MAX_SITES:
            core.native.watch(None, None, None, None)
            return
        for _ in range(FRAMES):
            self.kept_codes[id(frame.f_code)] = frame.f_code
            frame = frame.f_back or frame
        has_grad = self.is_grad_enabled()
        batch = _batch_size(args)
        is_learning = core.native.phase() == core.BACKPROPAGATION or core.native.is_sampled()
        pending = self.local.__dict__.setdefault("pending", [])
        pending.append((place, has_grad, batch, is_learning))
        is_learning = is_learning or (has_grad and self.acts_without_grad)
        phase = core.BACKPROPAGATION if is_learning else core.INFERENCE
        core.native.suppose(phase)
        if len(pending) >= MAX_PENDING:
            # A program that has stopped stepping its environment, perhaps for good.
            core.native.decide(phase)

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
                core.native.lean(core.DATA)


def _batch_size(args):
    """Return the first dimension of the first tensor, 0 if it has no other."""
    shape = getattr(args[0], "shape", ()) if args else ()
    # A symbol where torch runs the program without numbers.
    return shape[0] if len(shape) > 1 and type(shape[0]) is int else 0
