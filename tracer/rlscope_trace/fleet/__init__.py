"""Recorders on all nodes of a Ray cluster: started, kept alive, stopped, and their traces found."""
