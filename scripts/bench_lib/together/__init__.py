"""Pairs of an untraced and a traced run of a program, both at once on one CPU."""
