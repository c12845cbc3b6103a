"""Downloads packages without what they depend on, and gives their files as text."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hooks_lib.rows import Row

# Where the name on the package index is not that of the module.
NAMES = {"rsl_rl": "rsl-rl-lib", "nemo_rl": "nemo-rl", "stable_baselines3": "stable-baselines3"}
# Of packages that belong to another library than the rows: which version.
OTHERS = {"codetiming": "1.4"}
# Callers of what gives a name to something that is timed.
_TIMES = re.compile(r"(?i)tim(e|ing)|profil|record|^(start|stop|end|generate)$")
# Those that give it the name of the function they are called in.
_TIMES_CALLER = re.compile(r"(?i)timer|profil|record")
# Of a name that is put together what is not known.
_ANYTHING = "*"


class Source:
    """The Python files of one package, by the names of their modules."""

    def __init__(self, path: Path) -> None:
        """Read them from a wheel or a source archive."""
        self.name = path.name
        self.texts: dict[str, str] = {}
        for name, text in _files(path):
            self.texts[name] = text
        self._trees: dict[str, ast.Module] = {}

    def tree(self, module: str) -> ast.Module | None:
        """Return the syntax tree of a module; None: there is none, or not for this Python."""
        if module not in self.texts:
            return None
        if module not in self._trees:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    self._trees[module] = ast.parse(self.texts[module])
                except (SyntaxError, ValueError):
                    # A template, or for another Python.
                    return None
        return self._trees[module]

    @cached_property
    def timed(self) -> set[str]:
        """What the package calls what it times: `*` stands for what is not known before it runs."""
        trees = [self.tree(name) for name, text in self.texts.items() if _TIMES.search(text)]
        nodes = [node for tree in trees if tree is not None for node in ast.walk(tree)]
        constants: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    constants.setdefault(_name(target), set()).add(str(node.value.value))
        found: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Call) and _TIMES.search(_name(node.func)):
                for value in (*node.args, *(one.value for one in node.keywords)):
                    found |= _texts(value, constants)
            if isinstance(node, ast.FunctionDef) and any(
                _TIMES.search(_name(one)) for one in node.decorator_list
            ):
                found.add(f"{_ANYTHING}.{node.name}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                isinstance(one, ast.Call)
                and _TIMES_CALLER.search(_name(one.func))
                and not (one.args or one.keywords)
                for one in ast.walk(node)
            ):
                found.add(node.name)
        return found


def _name(node: ast.AST) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _texts(node: ast.AST, constants: dict[str, set[str]]) -> set[str]:
    """Return what an argument may be, as far as the source says."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    if isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else _ANYTHING for one in node.values]
        return {"".join(map(str, parts))}
    if isinstance(node, ast.Tuple):
        return set().union(*(_texts(one, constants) for one in node.elts))
    if isinstance(node, ast.IfExp):
        return _texts(node.body, constants) | _texts(node.orelse, constants)
    return constants.get(_name(node), set())


def _files(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".py"):
                    yield _module(name), archive.read(name).decode(errors="replace")
        return
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                name = member.name.split("/", 1)[1].removeprefix("src/")
                yield _module(name), file.read().decode(errors="replace")


def _module(name: str) -> str:
    name = re.sub(r"^[^/]+\.data/(pure|plat)lib/", "", name)
    return re.sub(r"(/__init__)?\.py$", "", name).replace("/", ".")


class Packages:
    """Packages in a folder; what is not there yet is downloaded."""

    def __init__(self, folder: Path, *, is_newest: bool) -> None:
        """Keep them in a folder; is_newest: whatever the rows say."""
        self._folder, self._is_newest = folder, is_newest
        self._sources: dict[tuple[str, str], Source] = {}

    def of(self, name: str, version: str) -> Source:
        """Return a package by its name and the beginning of its version; "": the newest."""
        wanted = "" if self._is_newest else OTHERS.get(name, version)
        if (name, wanted) not in self._sources:
            self._sources[name, wanted] = Source(self._file(NAMES.get(name, name), wanted))
        return self._sources[name, wanted]

    def reported(self, rows: list[Row]) -> str:
        """Say which packages the rows are of."""
        names = [row.module.split(".")[0] for row in rows]
        version = rows[0].tested.split()[1]
        return ", ".join(self.of(name, version).name for name in dict.fromkeys(names))

    def _file(self, name: str, version: str) -> Path:
        stem = re.sub(r"[-_.]+", "[-_.]", re.escape(name).replace("\\-", "-"))
        pattern = re.compile(rf"{stem}-{re.escape(version)}([.\d]*|\.post\d+)(-|\.tar)", re.I)
        folder = self._folder / ("newest" if not version else "")
        folder.mkdir(parents=True, exist_ok=True)

        def there() -> Path | None:
            return next((one for one in sorted(folder.iterdir()) if pattern.match(one.name)), None)

        found = there()
        if found is None:
            wanted = f"{name}=={version}.*" if version else name
            done = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wanted],
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            found = there()
            if done.returncode != 0 or found is None:
                last = [line for line in done.stderr.splitlines() if "ERROR" in line][-1:]
                sys.exit(f"error: {wanted} cannot be downloaded: {''.join(last)}")
        return found
