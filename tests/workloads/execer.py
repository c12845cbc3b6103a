"""Replaces itself K times with exec, in the main thread or (--from-thread) in another one.

Truth: `execs` execs in one process whose pid stays; all threads but one are gone after each. With
--from-thread the OS kernel gives the thread that called exec the tid of the main thread.
"""

import os
import sys
import threading

from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("--execs", type=int, default=3)
arguments.add_argument("--from-thread", action="store_true")
arguments.add_argument("--done", type=int, default=0, help="execs that are behind us")
options = arguments.parse_args()


def exec_again() -> None:
    """Become this program once more."""
    extra = [flag for flag in ("--hold", "--from-thread") if flag in sys.argv]
    command = [sys.executable, __file__, f"--execs={options.execs}", f"--done={options.done + 1}"]
    os.execv(sys.executable, [*command, *extra])


begin(options)
if options.done == options.execs:
    finish(options, execs=options.execs, from_thread=options.from_thread)
elif options.from_thread:
    thread = threading.Thread(target=exec_again)
    thread.start()
    thread.join()
else:
    exec_again()
