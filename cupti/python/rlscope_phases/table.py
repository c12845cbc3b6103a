"""Reads tables of phases: phases.table, which says what their columns are, and the user's own.

Nothing but the text is needed, so that the recorder can check a file before a program gets it.
"""

# As in thread_phase.h, in its order.
PHASES = (
    "simulation", "inference", "backpropagation", "data", "rollout", "reward", "logprob",
    "advantage", "optimizer", "weight_sync", "offload", "evaluation", "checkpoint", "wait",
)  # fmt: skip
PROCESSES = ("any", "main", "worker", "driver")
# By kind what follows it in the column `where`.
KINDS = {
    "adapter": ("FILE:FUNCTION",),
    "call": ("NAME",),
    "gives": ("NAME",),
    "calls": ("CLASS.METHOD",),
    "timer": ("BEGIN", "END", "NAME"),
    "context": ("FUNCTION", "NAME"),
    "unknown": (),
}
COLUMNS = ("library", "versions", "module", "where", "called there", "phase", "process", "tested")
# What a user's own table may have of them.
OWN_KINDS = ("call", "gives", "calls", "timer", "context")
AS_ABOVE = '"'
# After the number of an argument that may be missing: then the calling function gives its name.
OF_CALLER = "/caller"
NOTHING = "-"


class Row:
    """One row; `where` is split into its words, `names` is what is called there."""

    __slots__ = (
        "inside", "kind", "library", "module", "names", "phase", "tested", "versions", "where",
    )  # fmt: skip

    def __init__(self, cells, names, inside):
        self.library, self.versions, self.module, where, _, self.phase, _, self.tested = cells
        self.kind, *self.where = where.split()
        self.names, self.inside = names, inside


def parse(text, is_own=False):
    """Return the rows of a table; ValueError("line N: ...") for the first that is none.

    is_own: it is a user's, which has no code of ours.
    """
    rows = []
    above = [""] * len(COLUMNS)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            above = _cells(line, above)
            rows.append(_row(above, is_own))
        except ValueError as error:
            raise ValueError("line " + str(number) + ": " + str(error)) from None
    return rows


def _cells(line, above):
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) != len(COLUMNS):
        what = str(len(cells)) + " columns, not " + str(len(COLUMNS))
        raise ValueError(what + ": " + " | ".join(COLUMNS))
    made = [up if cell == AS_ABOVE else cell for cell, up in zip(cells, above)]
    for name, cell in zip(COLUMNS, made):
        if not cell or not cell.isprintable():
            raise ValueError("no " + name)
    return made


def _row(cells, is_own):
    _, versions, module, where, called, phase, process, _ = cells
    words = where.split()
    kinds = OWN_KINDS if is_own else tuple(KINDS)
    if words[0] not in kinds:
        raise ValueError(_unknown("where", words[0], kinds))
    if len(words) - 1 != len(KINDS[words[0]]):
        raise ValueError("where: " + " ".join((words[0], *KINDS[words[0]])) + " is what it takes")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError("module " + repr(module) + " is no name of a module")
    if module == "__main__":
        raise ValueError("module '__main__' is not imported: put what it has into one that is")
    if process not in PROCESSES:
        raise ValueError(_unknown("process", process, PROCESSES))
    has_phase = words[0] not in ("adapter", "unknown")
    if phase not in PHASES if has_phase else phase != NOTHING:
        raise ValueError(_unknown("phase", phase, PHASES if has_phase else (NOTHING,)))
    _check_where(words)
    _check_versions(versions)
    called, _, inside = called.partition(" in ")
    names = tuple(name.strip() for name in called.split(",") if name.strip())
    if words[0] in ("timer", "context") and (not names or NOTHING in names):
        raise ValueError("no names of what is timed")
    return Row(cells, names, inside.strip())


def _check_where(words):
    if words[0] in ("adapter", "unknown"):
        return
    has_name = words[0] in ("timer", "context")
    for word in words[1 : -1 if has_name else None]:
        parts = word.split(".")
        if len(parts) > 2 or not all(part.isidentifier() for part in parts):
            raise ValueError("where: " + repr(word) + " is no function and no Class.method")
        if words[0] in ("calls", "timer") and len(parts) != 2:
            raise ValueError("where: " + repr(word) + " is no Class.method")
    name = words[-1]
    number = name[: -len(OF_CALLER)] if words[0] == "context" and name.endswith(OF_CALLER) else name
    is_number = number.isdecimal() and len(number) == 1
    is_attribute = name[0] == "." and name[1:].isidentifier()
    if has_name and not is_number and not is_attribute:
        raise ValueError("where: NAME is .attribute, or the number of an argument")


def _check_versions(versions):
    if versions != "*":
        for part in versions.split(","):
            bound(part)


def bound(text):
    """Return ">=1.2" as (">=", (1, 2)); ValueError if it is no bound."""
    for sign in (">=", "<=", "==", ">", "<"):
        if text.strip().startswith(sign):
            numbers = text.strip()[len(sign) :].strip().split(".")
            if all(number.isdecimal() and len(number) < 9 for number in numbers):
                return sign, tuple(int(number) for number in numbers)
    raise ValueError("versions " + repr(text) + ": * or, for example, >=1.2,<3")


def _unknown(column, word, known):
    return column + " " + repr(word) + " is not known: " + ", ".join(known)


def matches(pattern, name):
    """Tell whether a name is the one that is meant: * at its ends stands for anything."""
    text = pattern.strip("*")
    if pattern.startswith("*") and pattern.endswith("*"):
        return text in name
    if pattern.startswith("*"):
        return name.endswith(text)
    return name.startswith(text) if pattern.endswith("*") else name == text
