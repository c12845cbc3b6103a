"""From the spool that a recording leaves to the trace database that users query."""
