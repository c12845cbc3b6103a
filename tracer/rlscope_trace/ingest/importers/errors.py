"""What can be wrong with a file to import."""

from rlscope_trace.errors import TracerError


class ImportFileError(TracerError):
    """A file cannot be imported: it is absent, damaged, or of another kind."""
