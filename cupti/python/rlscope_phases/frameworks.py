"""Puts the rows of the table in place: what a framework calls and times becomes phases."""

import sys

from rlscope_phases import core, failures, finder, table

NUMBERS = {name: number for number, name in enumerate(table.PHASES, 1)}
# Different names that frameworks give; what comes after them has none.
MAX_LABELS = 512
# Of those that called a timer, how many are looked at for the module that a row says.
MAX_CALLERS = 8
# Of so many names of timers it is known which row means them.
MAX_NAMES = 512
labels = {}
# Rows by module, once a module has been imported that has one.
_rows = {}


def adapt(module):
    """Put the rows of a module in place, ours after the user's."""
    name = module.__name__
    if not _rows:
        _load()
    timers = {}
    for row in _rows.get(name, ()):
        if row.kind in ("timer", "context"):
            timers.setdefault((row.kind, *row.where), []).append(row)
        else:
            failures.attempt(name, _place, row, module)
    for rows in timers.values():
        failures.attempt(name, _place_timer, rows, module)


def watch_waits():
    """Put the rows of plain waits in place: from here on something may learn."""
    for name, rows in list(_rows.items()):
        if any(finder.is_plain_wait(row.phase, row.names) for row in rows):
            finder.watched[name] = None
            module = sys.modules.get(name)
            # While a module is imported its own import will come by.
            if module is not None and not _is_initializing(module):
                failures.attempt(name, adapt, module)


def _is_initializing(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def _load():
    ours, own = finder.read()
    rows = []
    failures.attempt("--phases", lambda: rows.extend(table.parse(own, is_own=True)))
    for row in rows + table.parse(ours):
        _rows.setdefault(row.module, []).append(row)


def label_of(name):
    """Return the number of what a framework calls something, 0 if it cannot have one."""
    if not isinstance(name, str) or not name:
        return 0
    name = failures.plain(name)
    if name not in labels:
        number = len(labels) + 1
        is_kept = number <= MAX_LABELS and core.native.label(number, name)
        if not is_kept:
            return 0
        labels[name] = number
    return labels[name]


def _place(row, module):
    if not _is_of(row, module):
        return
    if row.kind == "adapter":
        core.run(row.where[0], module)
    elif row.kind == "unknown":
        failures.note_unknown(row.library)
    elif row.kind == "calls":
        _place_calls(row, module)
    else:
        owner, name = _owner(module, row.where[0])
        _replace(module, owner, name, lambda function: _hook(row, function))


def _hook(row, function):
    # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR: calling one only makes it.
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (0x20 | 0x80 | 0x200):
        raise TypeError(row.where[0] + " is no plain function")
    called = row.names[0] if row.names else row.where[0]
    label = 0 if called == table.NOTHING else label_of(called)
    kind = core.GIVE if row.kind == "gives" else core.TABLE
    return core.native.Hook(function, kind, NUMBERS[row.phase], False, core.NO_STEP, label)


def _place_calls(row, module):
    owner, name = _owner(module, row.where[0])

    def hook(cls):
        function = cls.__dict__.get(name)
        if type(function) is core.Function and not getattr(function, "__isabstractmethod__", False):
            setattr(cls, name, _hook(row, function))

    core.follow_subclasses(owner, hook, needs=(name,))


def _owner(module, path):
    """Return the class or module that has a function, and the name of that there."""
    parts = path.split(".")
    return (getattr(module, parts[0]), parts[1]) if len(parts) == 2 else (module, parts[0])


def _replace(module, owner, name, make):
    """Put another function in place of one of its owner, wherever the module keeps it."""
    getattr(owner, name)
    # As it stands in the class: a staticmethod is to stay one.
    classes = owner.__mro__ if isinstance(owner, type) else (owner,)
    function = next(vars(one)[name] for one in classes if name in vars(one))
    if type(function) is core.native.Hook:
        # What the module took from another has here the phase of the module's own row.
        source = sys.modules.get(function.__module__)
        if owner is not module or source is module or getattr(source, name, None) is not function:
            return
        function = function.__wrapped__
    if type(function) is not core.Function:
        raise TypeError(owner.__name__ + "." + name + " is no plain function")
    made = make(function)
    setattr(owner, name, made)
    for key, value in list(vars(module).items()):
        # Bound methods of an object that the module made, under names of their own.
        if getattr(value, "__func__", None) is function:
            setattr(module, key, getattr(value.__self__, name))


def _place_timer(rows, module):
    rows = [row for row in rows if _is_of(row, module)]
    if not rows:
        return
    *methods, source = rows[0].where
    source, _, otherwise = source.partition("/")
    find = _by_attribute(source[1:]) if source[0] == "." else _by_argument(int(source))
    if rows[0].kind == "timer":
        for method, make in zip(methods, (_begins, _ends)):
            owner, name = _owner(module, method)
            _replace(module, owner, name, lambda function, make=make: make(function, find, rows))
    else:
        owner, name = _owner(module, methods[0])
        is_method = "." in methods[0]
        index = int(source) - (not is_method) if source[0] != "." else None
        place = find if index is None else _by_argument(index)
        own = index if otherwise else None
        _replace(module, owner, name, lambda function: _makes_context(function, place, rows, own))


def _by_attribute(name):
    return lambda args, kwargs: getattr(args[0], name, None)


def _by_argument(index):
    def find(args, kwargs):
        if len(args) > index:
            return args[index]
        return next(iter(kwargs.values()), None)

    return find


def _last(name):
    """Return the last part of a name that is a tuple, as RLlib has them."""
    return name[-1] if isinstance(name, tuple) and name else name


def _row_of(rows, known, name):
    """Return the row that means a name. known: a dictionary for what was found of each before."""
    if not isinstance(name, str):
        return None
    meant = known.get(name)
    if meant is None:
        meant = _rows_that_mean(rows, name)
        # A program may name its timers as it likes, without end.
        if len(known) < MAX_NAMES:
            known[name] = meant
    for row in meant:
        if not row.inside or _is_called_in(row.inside):
            return row
    return None


def _rows_that_mean(rows, name):
    return tuple(row for row in rows if any(table.matches(pattern, name) for pattern in row.names))


def _is_called_in(module):
    frame = sys._getframe(3)
    for _ in range(MAX_CALLERS):
        if frame is None:
            return False
        name = frame.f_globals.get("__name__", "")
        if name == module or name.startswith(module + "."):
            return True
        frame = frame.f_back
    return False


def _key(timer, name):
    return (id(timer) ^ hash(name)) & 0xFFFFFFFFFFFFFFFF


def _begins(function, find, rows):
    known = {}

    def enter(args, kwargs):
        name = _last(find(args, kwargs))
        row = _row_of(rows, known, name)
        if row is not None:
            core.native.enter(_key(args[0], name), NUMBERS[row.phase], label_of(name))

    return core.hook_timer(function, core.BEGIN, rows[0].module, enter)


def _ends(function, find, rows):
    def leave(args, kwargs):
        core.native.leave(_key(args[0], _last(find(args, kwargs))))

    return core.hook_timer(function, core.END, rows[0].module, leave)


def _makes_context(function, find, rows, index=None):
    """Wrap what makes a context manager.

    index: of the argument that is its caller's name where it is missing; None: of none.
    """
    known = {}

    def context(*args, **kwargs):
        name = _last(find(args, kwargs))
        is_callers = index == len(args) and not kwargs
        if is_callers:
            name = sys._getframe(1).f_code.co_name
        row = _row_of(rows, known, name)
        if row is None:
            return function(*args, **kwargs)
        # It would look for its caller where we are.
        made = function(*args, name) if is_callers else function(*args, **kwargs)
        return Context(made, NUMBERS[row.phase], label_of(name))

    core.copy_names(function, context)
    return context


class Context:
    """A context manager of the program's, with a phase while it is entered."""

    def __init__(self, inner, phase, label):
        self.__wrapped__ = inner
        self._phase, self._label = phase, label

    def __enter__(self):
        entered = self.__wrapped__.__enter__()
        core.native.enter(id(self), self._phase, self._label)
        return entered

    def __exit__(self, *error):
        core.native.leave(id(self))
        return self.__wrapped__.__exit__(*error)

    def __call__(self, *args, **kwargs):
        """Decorate, as those of contextlib do; what it makes is as it would be without us."""
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)


def _is_of(row, module):
    """Tell whether the row is of this version of its library; of one that says none it is."""
    if row.versions == "*":
        return True
    numbers = _version(row, module)
    if numbers is None:
        return True
    for part in row.versions.split(","):
        sign, bound = table.bound(part)
        size = max(len(bound), len(numbers))
        left, right = numbers + (0,) * (size - len(numbers)), bound + (0,) * (size - len(bound))
        less, same = left < right, left == right
        if not {">=": not less, "<": less, "==": same, "<=": less or same, ">": not (less or same)}[
            sign
        ]:
            return False
    return True


def _version(row, module):
    library = sys.modules.get(module.__name__.split(".")[0])
    version = getattr(library, "__version__", None)
    numbers = []
    # Some say it last, when all their modules are there.
    for part in str(_installed_version(row.library) if version is None else version).split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers) or None


def _installed_version(library):
    try:
        from importlib import metadata

        return metadata.version(library)
    except Exception:
        return ""
