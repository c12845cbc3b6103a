"""What if: a trace replayed with one thing changed (docs/whatif.md)."""
