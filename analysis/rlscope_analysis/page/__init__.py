"""Reads all that a page shows of a trace."""
