"""Many traces as one: a small partial of each, merged, and what differs between them (docs/fleet.md)."""
