"""Holds a program's traced runs against its untraced ones: what tracing added, and what is left."""
