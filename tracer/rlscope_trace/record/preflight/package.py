"""Checks of this installation, the decisive one included: load and attach the programs."""

from __future__ import annotations

import importlib
from importlib import resources
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError
from rlscope_trace.record.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable

    Backends = list[tuple[str, bool, str]]

# A name would be looked up on an index.
REINSTALL = "install the wheel again: pip install --force-reinstall --no-deps WHEEL"
BACKEND_PREFIX = "backend_"


def _load_recorder() -> object:
    """Load the native module: imported here because it may be broken."""
    return importlib.import_module("rlscope_trace._capture")


def check_libelf(load: Callable[[], object] = _load_recorder) -> Finding:
    """Check for libelf, which reads the BPF objects: of the distribution, or inside a wheel."""
    try:
        load()
    except ImportError as error:
        # What else may be wrong with the module is reported with the backends.
        if "libelf" in str(error):
            what = f"libelf cannot be loaded: {error}"
            # A wheel has one of its own, whose name has a hash in it.
            is_plain = "libelf.so" in str(error)
            remedy = "sudo apt-get install libelf1" if is_plain else REINSTALL
            return Finding("libelf", "error", what, remedy)
    return Finding("libelf", "ok", "found by what reads the BPF objects")


def check_bpf_objects(package: Traversable | None = None) -> Finding:
    """Check that the installation carries its BPF objects."""
    folder = (package or resources.files("rlscope_trace")) / "bpf"
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    objects = sorted(name for name in names if name.endswith(".bpf.o"))
    if objects:
        return Finding("bpf_objects", "ok", ", ".join(objects))
    return Finding("bpf_objects", "error", f"no BPF objects in {folder}", REINSTALL)


def _probe_all() -> Backends:
    """Ask the loader; imported here because it needs the native module, which may be broken."""
    from rlscope_trace.record.backends import probe_backends

    return probe_backends()


def check_backends(probe: Callable[[], Backends] = _probe_all) -> list[Finding]:
    """Load and attach the programs of every backend: one that fails matters only if all do."""
    try:
        backends = probe()
    except ImportError as error:
        return [
            Finding(
                "native_module", "error", f"the native module cannot be loaded: {error}", REINSTALL
            )
        ]
    except (OSError, RuntimeError, TracerError) as error:
        return [Finding("native_module", "error", f"the backends cannot be probed: {error}")]
    any_works = any(works for _, works, _ in backends)
    findings = []
    for backend, works, reason in backends:
        name = BACKEND_PREFIX + backend
        if works:
            findings.append(Finding(name, "ok", f"programs of backend {backend} load and attach"))
        else:
            what = f"programs of backend {backend} do not load and attach: {reason}"
            findings.append(Finding(name, "note" if any_works else "error", what))
    return findings
