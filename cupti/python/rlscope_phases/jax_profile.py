"""Has JAX profile the program for a while: RLSCOPE_JAX_PROFILE is FROM:SECONDS:FOLDER.

What a program has compiled into one call can be seen by nobody else. Outside of the time asked for
nothing is changed: a thread waits, begins, waits, and ends the profile.
"""

import atexit
import os
import threading

from rlscope_phases import failures

VARIABLE = "RLSCOPE_JAX_PROFILE"
ADAPTER = "jax.profiler"


def adapt(module):
    """Take jax."""
    begins, lasts, folder = os.environ[VARIABLE].split(":", 2)
    window = _Window(module, float(begins), float(lasts), os.path.join(folder, str(os.getpid())))
    threading.Thread(target=window.run, name="rlscope-jax-profile", daemon=True).start()
    atexit.register(window.end)


class _Window:
    def __init__(self, jax, from_s, seconds, folder):
        self._jax, self._from_s, self._seconds, self._folder = jax, from_s, seconds, folder
        self._has_ended, self._begun = threading.Event(), False
        self._lock, self._pid = threading.Lock(), os.getpid()

    def run(self):
        """Begin in time, and end in time, or with the program."""
        if self._has_ended.wait(self._from_s):
            return
        failures.attempt(ADAPTER, self._begin)
        self._has_ended.wait(self._seconds)
        self.end()

    def _begin(self):
        with self._lock:
            if self._has_ended.is_set():
                return
            # For nobody else to read, as a trace.
            for folder in (os.path.dirname(self._folder), self._folder):
                os.makedirs(folder, mode=0o700, exist_ok=True)
            profiler = self._jax.profiler
            profiler.start_trace(self._folder, **_without_python(profiler))
            self._begun = True

    def end(self):
        """End the profile that was begun, once; what JAX has seen is written then."""
        # A child that was forked meanwhile profiles nothing.
        if os.getpid() != self._pid:
            return
        self._has_ended.set()
        with self._lock:
            if self._begun:
                self._begun = False
                failures.attempt(ADAPTER, self._jax.profiler.stop_trace)


def _without_python(profiler):
    """Return the options that leave the tracer of Python out, which costs most and tells least."""
    make = getattr(profiler, "ProfileOptions", None)
    if make is None:
        return {}
    options = make()
    options.python_tracer_level = 0
    return {"profiler_options": options}
