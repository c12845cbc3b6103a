"""Makes trace databases of the files of other profilers."""
