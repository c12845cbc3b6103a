"""What went wrong in an adapter: counted, and reported to the recorder, never to the program.

A failure is a mark in the domain of the phases: its text holds the adapter, the type of the
exception and the first line of its message. The recorder counts equal marks.
"""

# As in tracer/rlscope_trace/ingest/store/phase_failures.py.
PREFIX = "adapter failed"
NO_ROW = "no row"
# Different ones in a process. What comes after them is reported as one.
MAX_KINDS = 32
OTHERS = (PREFIX, "others", "", "")
MAX_TEXT = 160
# Text of the mark -> how often.
counts = {}
# What makes a mark, once a tool listens.
report = None


def note(adapter, error):
    """Count a failure, and report it."""
    text = "\t".join((PREFIX, *map(plain, (adapter, type(error).__name__, _first_line(error)))))
    if text not in counts and len(counts) >= MAX_KINDS:
        text = "\t".join(OTHERS)
    counts[text] = counts.get(text, 0) + 1
    if report is not None:
        report(text)


def note_unknown(library):
    """Report a library that trains, and of which no row of the table says where."""
    if report is not None:
        report("\t".join((NO_ROW, plain(library))))


def attempt(adapter, function, *arguments):
    """Call a function of ours; what it raises is counted."""
    try:
        function(*arguments)
    except Exception as error:
        note(adapter, error)


def _first_line(error):
    try:
        return str(error).strip().split("\n", 1)[0]
    except Exception:
        return ""


def plain(text):
    """Return a text as a mark can hold it: short, and on one line."""
    kept = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    return "".join(one if one.isprintable() else "?" for one in kept)
