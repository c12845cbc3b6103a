"""`summarize --by operation`: where the time of each operation went, per iteration, as a tree."""
