"""Records where the time of a reinforcement-learning program goes, with eBPF."""

__version__ = "0.1.0"
