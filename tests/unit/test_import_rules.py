"""Data flows one way, and so do imports: who may know whom, and what may lie where."""

import ast
import fnmatch
import graphlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TRACER = REPOSITORY / "tracer" / "rlscope_trace"
ANALYSIS = REPOSITORY / "analysis" / "rlscope_analysis"
PACKAGES = (TRACER, ANALYSIS, REPOSITORY / "cupti/python/rlscope_phases")

# The rooms of the tracer, earliest first: a room may import those that stand before it. `_capture`
# and `_ingest` are native modules. A new room needs a place here.
TRACER_ROOMS = (
    "errors",
    "installed",
    "address_space",
    "texts",
    "signals",
    "ending",
    "cuda_names",
    "phase_status",
    "_capture",
    "_ingest",
    "procfs",
    "privileges",
    "outputs",
    "confinement",
    "system_calls",
    "rights",
    "cold_probe",
    "spool",
    "record.medians",
    "record.bounded",
    "record.layers",
    "record.limits",
    "record.inject",
    "record.loaders",
    "record.backends",
    "record.governor",
    "record.nvml",
    "record.cgroups",
    "record.package_energy",
    "record.os_counters",
    "record.surroundings",
    "record.machine_speed",
    "record.preflight",
    "record.target",
    "record.shims",
    "record.phase_rows",
    "record.jax_profile",
    "record.launch",
    "record.lease",
    "record.ray_facts",
    "record.probes",
    "record.last",
    "record.live",
    "record.session",
    "record.watch",
    "record.calibrate",
    "record.validate",
    "ingest.writer",
    "ingest.store",
    "ingest.importers",
    "fleet",
    "cli",
)
# The parts of the tracer that have rooms of their own.
PARTS = ("record", "ingest")
# Who may know what records: that part, and the commands.
RECORDING = ("record", "fleet", "cli")

# The same of the analysis.
ANALYSIS_ROOMS = (
    "errors",
    "wording",
    "cpu_list",
    "foreign_file",
    "result",
    "schema",
    "findings",
    "sentences",
    "command_sentences",
    "comparison_sentences",
    "whatif_sentences",
    "balance_sentences",
    "fleet_sentences",
    "cell_sentences",
    "note_sentences",
    "renderers",
    "_sweep",
    "_perfetto",
    "_critical_path",
    "_replay",
    "views",
    "relations",
    "window",
    "sweep",
    "critical_path",
    "training",
    "on_demand",
    "catalog",
    "overhead",
    "derive",
    "spill",
    "own_name",
    "trace_file",
    "kept_views",
    "contents",
    "damage",
    "trace",
    "traces",
    "query",
    "reports",
    "summary",
    "overview",
    "operations",
    "explain",
    "whatif",
    "balance",
    "compare",
    "page",
    "plots",
    "viewport",
    "export",
    "fleet",
    "notebook",
)
ROOMS = {TRACER: TRACER_ROOMS, ANALYSIS: ANALYSIS_ROOMS}

# What the C and C++ code of a folder may include from this repository, as written there. The
# collector shares with the kernel half: the records, the per-thread state, the tracepoint offsets.
INCLUDES = {
    "bpf": r"[a-z0-9_]+\.h",
    "cupti": r"[a-z_]+\.h",
    "tracer/native": r"[a-z_]+\.h",
    "tracer/native/capture": r"(capture/|spool/)?[a-z_]+\.h|bpf/(records|track|tp_fields)\.h",
    "tracer/native/finder": r"(finder/|inject/)?[a-z_]+\.h",
    "tracer/native/inject": r"(inject/)?[a-z_]+\.h",
    "tracer/native/probes": r"(probes/|capture/|finder/)?[a-z_]+\.h|bpf/(records|native_state)\.h",
    "tracer/native/samples": (
        r"(samples/|capture/|spool/|inject/)?[a-z0-9_]+\.h|bpf/(records|sample)\.h"
    ),
    "tracer/native/shim": r"(shim/)?[a-z_]+\.h|cupti/records\.h",
    "tracer/native/spool": r"(spool/)?[a-z_]+\.h|bpf/records\.h",
    "tracer/native/import": r"[a-z0-9_]+\.h",
    "tracer/native/nesting": r"(nesting/)?[a-z_]+\.h",
    # Its client of NVTX is that of the automatic phases.
    "tracer/native/loops": r"loops\.h|nvtx_client\.h",
    "analysis/native": r"[a-z_]+\.h",
}
# Where C and C++ code lies, and what headers are found from but their own folder.
C_FOLDERS = ("bpf", "cupti", "tracer/native", "analysis/native")
INCLUDE_FOLDERS = tuple(
    REPOSITORY / name for name in ("", "tracer/native", "cupti", "cupti/python")
)
# And from elsewhere, where that is limited: libbpf's headers for BPF programs, no others.
SYSTEM_INCLUDES = {"bpf": r"bpf/[a-z_]+\.h"}
# records.h is shared with C++, which needs stdint.h where BPF brings its own types.
SYSTEM_EXCEPTIONS = {("bpf/records.h", "stdint.h")}

TOP_FOLDERS = {"bpf", "cupti", "tracer", "analysis", "scripts", "tests", "docs"}
TOP_FILES = {"README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md", "pyproject.toml"}

# Paths that exist on one machine only; a leading word character makes it /proc/PID/root and such.
MACHINE_PATH = re.compile(r"(?<![\w.}*])/(?:work|root|home/\w+)\b(?=/|$|\s)")


def imported_modules(path: Path) -> Iterator[str]:
    """Yield every module the file imports, also inside functions and TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from package import name` may import the module package.name.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path, package: Path) -> str:
    """Return the room of a file: its folder or its own name, under the package or a part of it."""
    names = path.relative_to(package).parts
    return room_named([name.removesuffix(".pyi").removesuffix(".py") for name in names])


def room_named(names: Sequence[str]) -> str:
    """Return the room of a module, of its names below the package."""
    return ".".join(names[: 2 if names[0] in PARTS else 1])


def python_files(folder: Path) -> list[Path]:
    """Return the Python files under a folder, which must have some."""
    found = sorted(folder.rglob("*.py")) + sorted(folder.rglob("*.pyi"))
    assert found, f"no Python below {folder}"
    return found


def test_analysis_never_imports_the_tracer() -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)} imports {module}"
        for path in python_files(ANALYSIS)
        for module in imported_modules(path)
        if module.split(".")[0] == "rlscope_trace"
    ]
    assert wrong == []


def test_only_the_cli_imports_the_analysis_except_the_schema() -> None:
    """And what records a fleet its own half: clocks and partials are the same on both sides."""
    wrong = [
        f"{path.relative_to(REPOSITORY)} imports {module}"
        for path in python_files(TRACER)
        for module in imported_modules(path)
        if module.split(".")[0] == "rlscope_analysis"
        and module.split(".")[1:2] != ["schema"]
        and room_of(path, TRACER) != "cli"
        and (room_of(path, TRACER), module.split(".")[1:2]) != ("fleet", ["fleet"])
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ROOMS, ids=lambda package: package.name)
def test_rooms_import_only_earlier_ones(package: Path) -> None:
    rooms, wrong = ROOMS[package], []
    for path in python_files(package):
        room = room_of(path, package)
        # That of the analysis names what is in it; `python -m` stands outside as a user does.
        if room == "__main__" or (room == "__init__" and package == ANALYSIS):
            continue
        is_first = room.rpartition(".")[2] == "__init__"
        assert room in rooms or is_first, f"{path.name}: give this room a place in the list"
        rank = -1 if is_first else rooms.index(room)
        for module in imported_modules(path):
            name, *parts = module.split(".")
            if name != package.name or not parts or parts[0] == "__version__":
                continue
            other = room_named(parts)
            if other != room and (other not in rooms or rooms.index(other) >= rank):
                wrong.append(f"{path.relative_to(REPOSITORY)} ({room}) imports {module}")
    assert wrong == []


def test_what_reads_knows_nothing_that_records() -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)} imports {module}"
        for path in python_files(TRACER)
        if room_of(path, TRACER).partition(".")[0] not in RECORDING
        for module in imported_modules(path)
        if module.split(".")[:2] in (["rlscope_trace", "record"], ["rlscope_trace", "_capture"])
    ]
    assert wrong == []


def test_what_records_knows_nothing_that_ingests() -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)} imports {module}"
        for path in python_files(TRACER / "record")
        for module in imported_modules(path)
        if module.split(".")[:2] == ["rlscope_trace", "ingest"]
    ]
    assert wrong == []


def test_the_readme_lists_the_rooms_in_their_order() -> None:
    readme = (REPOSITORY / "tracer/README.md").read_text()
    cells = re.findall(r"^\| (`.*?`) \|", readme, flags=re.MULTILINE)
    listed = [room for cell in cells for room in re.findall(r"`(\w+)`", cell)]
    rooms = [room.rpartition(".")[2] for room in TRACER_ROOMS]
    assert listed == [room for room in rooms if not room.startswith("_")]


@pytest.mark.parametrize("folder", sorted(INCLUDES))
def test_c_code_includes_only_what_its_folder_may(folder: str) -> None:
    wrong = []
    for path in sorted((REPOSITORY / folder).glob("*.*")):
        if path.suffix not in {".c", ".h", ".cpp"}:
            continue
        name = path.relative_to(REPOSITORY).as_posix()
        text = path.read_text()
        wrong += [
            f'{name} includes "{own}"'
            for own in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)
            if not re.fullmatch(INCLUDES[folder], own)
        ]
        for system in re.findall(r"^\s*#\s*include\s*<([^>]+)>", text, re.MULTILINE):
            allowed = SYSTEM_INCLUDES.get(folder)
            if allowed is None or re.fullmatch(allowed, system):
                continue
            if (name, system) not in SYSTEM_EXCEPTIONS:
                wrong.append(f"{name} includes <{system}>")
    assert wrong == []


def room_of_source(path: Path) -> str:
    """Return what a C or C++ file and its header are one room of."""
    return path.relative_to(REPOSITORY).with_suffix("").as_posix().removesuffix(".bpf")


def used_rooms() -> dict[str, set[str]]:
    """Return which rooms of C and C++ each of them includes headers of."""
    code = {
        path
        for folder in C_FOLDERS
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in {".c", ".h", ".cpp"}
    }
    used: dict[str, set[str]] = {}
    for path in sorted(code):
        room = room_of_source(path)
        used.setdefault(room, set())
        for own in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE):
            found = {base / own for base in (path.parent, *INCLUDE_FOLDERS)} & code
            assert found, f"{room} includes {own}, which is nowhere"
            used[room] |= {room_of_source(header) for header in found} - {room}
    return used


def test_no_rooms_of_c_code_use_each_other() -> None:
    """A file and its header are one: what only the headers say hides that two need each other."""
    try:
        graphlib.TopologicalSorter(used_rooms()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def test_no_folders_of_c_code_use_each_other() -> None:
    """A header of a folder above is everybody's: it is in no folder that uses another."""
    used: dict[str, set[str]] = {}
    for room, others in used_rooms().items():
        folder = room.rpartition("/")[0]
        used.setdefault(folder, set()).update(other.rpartition("/")[0] for other in others)
    folders = {
        folder: {other for other in others if not f"{folder}/".startswith(f"{other}/")}
        for folder, others in used.items()
    }
    try:
        graphlib.TopologicalSorter(folders).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def used_files(package: Path) -> dict[str, set[str]]:
    """Return which modules of a package each of them imports, also inside functions."""
    modules = {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)): path
        for path in python_files(package)
        if path.suffix == ".py"
    }
    names = {name.removesuffix(".__init__"): name for name in modules}
    native = {f"{package.name}.{path.stem}" for path in package.glob("*.pyi")}
    used: dict[str, set[str]] = {}
    for name, path in modules.items():
        imported = {
            names.get(module) or names.get(module.rpartition(".")[0])
            for module in set(imported_modules(path)) - native
        }
        used[name] = {other for other in imported if other is not None} - {name}
    return used


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_python_files_import_each_other(package: Path) -> None:
    try:
        graphlib.TopologicalSorter(used_files(package)).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def ignored_at_top() -> list[str]:
    """Return the patterns of .gitignore that speak of one name."""
    lines = (REPOSITORY / ".gitignore").read_text().split()
    return [line.strip("/") for line in lines if not line.startswith("#")]


def test_top_level_holds_only_the_seven_folders() -> None:
    strangers = [
        path.name
        for path in REPOSITORY.iterdir()
        if path.name not in TOP_FOLDERS | TOP_FILES
        and not path.name.startswith(".")
        and not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored_at_top())
    ]
    assert strangers == []


def source_files() -> Iterator[Path]:
    """Yield every file that belongs to the repository, without asking git: an archive has none."""
    yield from (path for path in REPOSITORY.iterdir() if path.name in TOP_FILES)
    yield from (REPOSITORY / name for name in (".gitignore", ".clang-format"))
    for folder in sorted(TOP_FOLDERS | {".ci"}):
        for path in (REPOSITORY / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def test_no_file_names_a_path_of_one_machine() -> None:
    wrong = []
    for path in source_files():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        wrong += [
            f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if MACHINE_PATH.search(line)
        ]
    assert wrong == []


def test_the_machine_path_rule_sees_and_spares() -> None:
    slash = "/"
    assert MACHINE_PATH.search(f"see {slash}root/x")
    assert MACHINE_PATH.search(f'open("{slash}home/somebody/x")')
    assert not MACHINE_PATH.search(f"/proc/PID{slash}root/usr/lib")
    assert not MACHINE_PATH.search(f"tests{slash}workloads")
