"""How much address space it takes to work on a trace: if there is less, we say so first."""

# What DuckDB, numpy and the stacks of threads reserve, measured with room. They crash where they
# cannot map it.
LEAST_BYTES = 3 << 29
# Of the stack, which each of DuckDB's threads gets as much of as the limit says.
LEAST_STACK_BYTES = 1 << 18
