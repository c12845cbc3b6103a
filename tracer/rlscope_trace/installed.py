"""Where the parts of this package lie that are no Python: the shim, the loops, BPF programs."""

from pathlib import Path

PACKAGE = Path(__file__).absolute().parent
SHIM_FOLDER = PACKAGE / "shim"
LIBRARY_FOLDER = PACKAGE / "lib"
