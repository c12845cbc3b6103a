"""How much address space it takes to work on a trace: less is told before anything is loaded."""

# What DuckDB, numpy and the stacks of threads reserve, measured with room. They crash where they
# cannot map it.
LEAST_BYTES = 3 << 29
