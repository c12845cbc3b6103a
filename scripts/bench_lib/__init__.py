"""What scripts/bench measures, one module per figure."""
