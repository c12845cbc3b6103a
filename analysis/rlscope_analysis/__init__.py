"""Reads trace databases and answers questions about them; never records."""
