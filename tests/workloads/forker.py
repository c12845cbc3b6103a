"""Forks one child after the other; each exits at once with the code given for it.

Truth: `pids[i]` is a child of `pid`, was waited for before the next one, and left with `codes[i]`.
"""

import os

from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("codes", type=int, nargs="*", default=[0, 1, 7, 255])
options = arguments.parse_args()
begin(options)
pids = []
for code in options.codes:
    child = os.fork()
    if child == 0:
        os._exit(code)
    os.waitpid(child, 0)
    pids.append(child)
finish(options, codes=options.codes, pids=pids)
