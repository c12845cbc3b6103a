"""Forks one child, kills it with SIGKILL while it waits for a pipe, and reaps it.

Truth: `child` is a child of `pid` that was ended by signal 9; `status` is its raw wait status.
"""

import os
import signal

from handshake import begin, finish, parser

options = parser(__doc__).parse_args()
begin(options)
child_reads, _parent_holds = os.pipe()
parent_reads, child_writes = os.pipe()
child = os.fork()
if child == 0:
    os.write(child_writes, b"!")
    os.read(child_reads, 1)
    os._exit(0)
os.read(parent_reads, 1)
os.kill(child, signal.SIGKILL)
_, status = os.waitpid(child, 0)
finish(options, child=child, status=status, signal=os.WTERMSIG(status))
