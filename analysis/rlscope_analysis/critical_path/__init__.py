"""Critical path: what held each iteration up, at every instant (docs/critical_path.md)."""
