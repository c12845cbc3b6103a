"""`python -m rlscope_trace` is `rlscope-trace`."""

from rlscope_trace.cli import main

if __name__ == "__main__":
    main()
