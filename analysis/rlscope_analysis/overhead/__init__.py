"""What recording cost a trace, event by event, and how that is taken off: docs/overhead.md."""
