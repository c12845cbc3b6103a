"""The overlap engine over stored traces and over anybody's intervals: docs/overlap.md."""
