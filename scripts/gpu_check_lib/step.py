"""The process of one step: `python -m gpu_check_lib.step CONTEXT.json`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from gpu_check_lib.context import Context, NotHereError


def main() -> int:
    """Run the step that the context names; what it finds is in the journal before it ends."""
    context = Context.load(Path(sys.argv[1]))
    step = importlib.import_module(f"gpu_check_lib.steps.{context.step}")
    try:
        step.run(context)
    except NotHereError as error:
        context.skip("the rest", str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
