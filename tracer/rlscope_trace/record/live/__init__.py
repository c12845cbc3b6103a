"""What a target does right now: sums of the native collectors, and what two of them tell."""
