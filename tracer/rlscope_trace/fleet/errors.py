"""What a call to a keeper raises where nothing comes back."""

from rlscope_trace.errors import TracerError


class LostError(TracerError):
    """A keeper does not answer: it, or its node, is gone."""


class PendingError(LostError):
    """A keeper has not answered in time, but may answer yet."""
