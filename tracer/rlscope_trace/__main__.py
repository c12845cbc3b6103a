"""`python -m rlscope_trace` is `rlscope-trace`."""

import os
import sys

# Python puts the current folder first, unless it was told not to: no module may come from there.
if sys.path and os.path.abspath(sys.path[0]) == os.getcwd():  # noqa: PTH100, PTH109 - before pathlib
    del sys.path[0]

from rlscope_trace.cli import main

if __name__ == "__main__":
    main()
