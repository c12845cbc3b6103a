"""Waits at a gate, then becomes a command: `python -I -S at_gate.py GATE COMMAND...`.

GATE is a FIFO: the command begins when its writer has closed it, on the CPU that he has written to
it; if he has written nothing, it does not.
"""

import os
import signal
import sys

# What a recorder needs to start, on a machine that is very busy.
_LONGEST_WAIT_S = 120
_NOT_LET_GO = 125


def main() -> None:
    """Wait, and run the command."""
    gate, *command = sys.argv[1:]
    # Whoever ends a run ends it here, too, and nobody waits for a writer that is gone.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.alarm(_LONGEST_WAIT_S)
    with open(gate) as file:  # noqa: PTH123 - pathlib takes longer to import
        cpu = file.read()
    signal.alarm(0)
    if not cpu:
        sys.exit(_NOT_LET_GO)
    os.sched_setaffinity(0, {int(cpu)})
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
