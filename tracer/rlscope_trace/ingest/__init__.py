"""Makes traces of what a recording left, and of the files of other profilers."""
