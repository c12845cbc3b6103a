"""Many traces as one: a small partial of each, merged, and how they differ (docs/fleet.md)."""
