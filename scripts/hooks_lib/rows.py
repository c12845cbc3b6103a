"""Holds rows of phases.table to the source of the libraries that they are of."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rlscope_phases import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hooks_lib.packages import Packages, Source


class Row(Protocol):
    """A row of the table: rlscope_phases.table.Row."""

    inside: str
    kind: str
    library: str
    module: str
    names: tuple[str, ...]
    tested: str
    where: list[str]


Function = ast.FunctionDef | ast.AsyncFunctionDef
# What a class keeps as something else than a plain function.
_NOT_PLAIN = {"staticmethod", "classmethod", "property", "cached_property"}


def faults_of(rows: list[Row], packages: Packages) -> list[str]:
    """Say of each row what the source does not have."""
    faults: list[str] = []
    for row in rows:
        version = row.tested.split()[1]
        source = packages.of(row.module.split(".")[0], version)
        # Whose names they are: verl uses a timer of another library.
        user = packages.of(row.library.replace("-", "_"), version) if row.names else source
        where = f"{row.module}: {row.kind} {' '.join(row.where)}"
        faults += [f"{where}: {fault}" for fault in _faults(row, source, user)]
    return faults


def _faults(row: Row, source: Source, user: Source) -> Iterator[str]:
    if source.tree(row.module) is None:
        yield "no such module"
        return
    found = Module(source, row.module)
    if row.kind == "adapter":
        yield from _adapter_faults(row, found)
        return
    *paths, name = row.where if row.kind in ("timer", "context") else (*row.where, "")
    for path in paths:
        function = found.function(path)
        if function is None:
            yield f"no {path}"
        else:
            yield from _function_faults(row, path, function, name)
    if name.startswith(".") and not found.has_attribute(paths[0].partition(".")[0], name[1:]):
        yield f"nothing sets {name}"
    if row.kind in ("timer", "context"):
        for pattern in row.names:
            # "*.generate": a class comes first, which is put there when it is timed.
            wanted = {pattern, pattern.removeprefix("*.")}
            if not any(_may_be(one, name) for one in wanted for name in user.timed):
                yield f"nothing is timed as {pattern}"
        if row.inside and not any(
            one == row.inside or one.startswith(row.inside + ".") for one in user.texts
        ):
            yield f"no module {row.inside}"


def _may_be(pattern: str, name: str) -> bool:
    """Tell whether a name with parts that are not known may be what a row says; not by chance."""
    known = name.strip("*").strip("._/")
    return table.matches(pattern, name) or (
        name != known and bool(known) and known in pattern and len(known) > len(pattern) // 2
    )


def _function_faults(row: Row, path: str, function: Function, name: str) -> Iterator[str]:
    decorators = {_last_name(one) for one in function.decorator_list}
    if decorators & _NOT_PLAIN:
        yield f"{path} is a {', '.join(sorted(decorators & _NOT_PLAIN))}"
    is_lazy = isinstance(function, ast.AsyncFunctionDef) or _yields(function)
    if row.kind in ("call", "gives", "calls") and is_lazy:
        yield f"calling {path} only makes it"
    if row.kind == "context" and is_lazy and "contextmanager" not in decorators:
        yield f"{path} makes no context manager"
    name = name.removesuffix(table.OF_CALLER)
    if name.isdecimal():
        arguments = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        if len(arguments) <= int(name) - ("." not in path) and function.args.vararg is None:
            yield f"{path}({', '.join(arguments)}) has no argument {name}"


def _yields(function: Function) -> bool:
    inner = list(function.body)
    while inner:
        node = inner.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            inner += ast.iter_child_nodes(node)
    return False


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _adapter_faults(row: Row, found: Module) -> Iterator[str]:
    """Hold what one of our adapters takes from a module to it."""
    file, _, name = row.where[0].partition(":")
    path = _adapters() / f"{file}.py"
    functions = {
        one.name: one
        for one in ast.parse(path.read_text()).body
        if isinstance(one, ast.FunctionDef)
    }
    for node in ast.walk(functions[name]):
        if _is_of_module(node) and found.class_of(node.attr) is None and not found.has(node.attr):
            yield f"no {node.attr}"
        needs = [one.value for one in getattr(node, "keywords", ()) if one.arg == "needs"]
        if isinstance(node, ast.Call) and needs and _is_of_module(node.args[0]):
            for method in ast.literal_eval(needs[0]):
                where = f"{node.args[0].attr}.{method}"  # type: ignore[attr-defined]
                if found.function(where) is None:
                    yield f"no {where}"


def _adapters() -> Path:
    return Path(table.__file__).parent


def _is_of_module(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "module"
        and not node.attr.startswith("__")
    )


class Module:
    """One module, and what it takes from others of its package."""

    def __init__(self, source: Source, name: str) -> None:
        """Look at a module that the package has."""
        self._source, self._name = source, name
        tree = source.tree(name)
        assert tree is not None
        # Also what stands under `if` or `try`.
        self._body = [one for one in ast.walk(tree) if isinstance(one, _Statements)]
        self._top = list(_top_level(tree.body))

    def has(self, name: str) -> bool:
        """Tell whether the module has something of that name."""
        for node in self._top:
            if isinstance(node, Function | ast.ClassDef) and node.name == name:
                return True
            if isinstance(node, ast.Import | ast.ImportFrom) and any(
                (one.asname or one.name) == name for one in node.names
            ):
                return True
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(one, ast.Name) and one.id == name for one in targets):
                    return True
        return False

    def class_of(self, name: str, depth: int = 0) -> tuple[Module, ast.ClassDef] | None:
        """Return a class, with the module that defines it."""
        for node in self._top:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return self, node
            if isinstance(node, ast.ImportFrom) and depth < 8:
                for one in node.names:
                    if (one.asname or one.name) == name:
                        other = self._other(node)
                        return None if other is None else other.class_of(one.name, depth + 1)
        return None

    def _other(self, node: ast.ImportFrom) -> Module | None:
        package = self._name.split(".")
        if node.level:
            is_package = any(one.startswith(self._name + ".") for one in self._source.texts)
            package = package[: len(package) - node.level + is_package]
            name = ".".join((*package, *((node.module,) if node.module else ())))
        else:
            name = node.module or ""
        return Module(self._source, name) if name in self._source.texts else None

    def function(self, path: str) -> Function | None:
        """Return a function, or a method that a class has or inherits."""
        owner, _, name = path.rpartition(".")
        if not owner:
            return next((o for o in self._top if isinstance(o, Function) and o.name == name), None)
        for _, node in self._lineage(owner):
            for one in _top_level(node.body):
                if isinstance(one, Function) and one.name == name:
                    return one
        return None

    def _lineage(self, name: str, depth: int = 0) -> Iterator[tuple[Module, ast.ClassDef]]:
        found = self.class_of(name)
        if found is None or depth > 8:
            return
        yield found
        for base in found[1].bases:
            root = base.value if isinstance(base, ast.Subscript) else base
            yield from found[0]._lineage(_last_name(root), depth + 1)

    def has_attribute(self, owner: str, name: str) -> bool:
        """Tell whether a class sets an attribute of itself."""
        for _, node in self._lineage(owner):
            for one in ast.walk(node):
                if (
                    isinstance(one, ast.Attribute)
                    and isinstance(one.ctx, ast.Store)
                    and one.attr == name
                ):
                    return True
                if isinstance(one, ast.AnnAssign) and getattr(one.target, "id", "") == name:
                    return True
        return False


_Statements = (ast.stmt,)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, also what stands under `if`, `try` or `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _top_level(node.body)
            for name in ("orelse", "finalbody"):
                yield from _top_level(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_level(handler.body)
