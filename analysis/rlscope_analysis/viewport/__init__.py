"""Reads what lies between two instants of a trace, as finely as it can be drawn."""
