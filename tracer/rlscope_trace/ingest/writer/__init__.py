"""Writes a trace database: what takes columns or rows, and makes a verified file of them."""
