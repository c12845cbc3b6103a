"""Finds the phases of a reinforcement-learning program that nobody changed.

simulation, inference, backpropagation and data become NVTX ranges in the domain "rlscope".
starting.py begins. Only the standard library is used, and of that what Python has loaded anyway.

`status` says why there are no phases: "not started", "waiting" (no such library was imported),
"on", or a code of tracer/rlscope_trace/phase_status.py, after a tab what it is about. A launched
program that imports such a library, and has no phases, reports it: absence.py.
"""

status = "not started"
# The program ran before us: whoever came late asks for the status.
is_late = False
