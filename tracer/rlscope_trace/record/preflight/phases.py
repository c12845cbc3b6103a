"""Whether automatic phases are found in the libraries of a Python: that Python itself is asked."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.phase_status import absence_fact
from rlscope_trace.privileges import invoking_environment
from rlscope_trace.record.preflight.finding import Finding
from rlscope_trace.record.preflight.gpu import SHIM_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rlscope_analysis.schema.facts.fact import Fact
    from rlscope_trace.privileges import Identity

_TIMEOUT_S = 300
_MOST_BYTES = 1 << 20
# Of a failure: that it is one, which adapter, what kind of error, what it says.
_FAILURE_TABS = 3
_CHECK = "from rlscope_phases import check; check.main()"
_REPORT = "report it with the version of the library; what other adapters find is recorded"


def check_phases(
    python: str, identity: Identity | None, sentence: Callable[[Fact], str]
) -> list[Finding]:
    """Import what that Python has of the libraries we know, as the user that called sudo.

    sentence: turns a reason into words.
    """
    try:
        found = _ask(python, identity)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        what = f"{python} could not be asked: {_plain(str(error))}"
        return [Finding("phases", "warning", what, "--python names the Python of the program")]
    if found["status"] != "on":
        why = sentence(absence_fact(found["status"]))
        what = f"no automatic phases in {python}: {_plain(why)}"
        return [Finding("phases", "warning", what)]
    libraries = dict.fromkeys(name.partition(".")[0] for name in found["modules"])
    if not libraries:
        return [Finding("phases", "note", f"{python} has no library that phases are found in")]
    return [finding for library in libraries for finding in _of_library(library, found)]


def _ask(python: str, identity: Identity | None) -> dict[str, Any]:
    environment = invoking_environment(identity)
    paths = [str(SHIM_FOLDER / "python"), environment.get("PYTHONPATH", "")]
    environment |= {
        "RLSCOPE_AUTO": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "NVTX_INJECTION64_PATH": str(SHIM_FOLDER / SHIM_NAME),
    }
    owner: dict[str, Any] = {}
    if identity is not None:
        owner = {"user": identity.uid, "group": identity.gid, "extra_groups": identity.groups}
    with subprocess.Popen(
        [os.path.abspath(python) if os.sep in python else python, "-c", _CHECK],  # noqa: PTH100
        env=environment,
        # Modules are looked for there before anywhere else, and ours may be anybody's.
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **owner,
    ) as process:
        answer = _answer_of(process)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, [python, "-c", _CHECK])
    found = json.loads(answer.rstrip().rpartition(b"\n")[2])
    if not _is_answer(found):
        raise ValueError("its answer cannot be read")
    return found  # type: ignore[no-any-return]


def _answer_of(process: subprocess.Popen[bytes]) -> bytes:
    """Return what it printed, up to a limit; it is killed where it prints more, or takes long."""
    watchdog = threading.Timer(_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        answer = process.stdout.read(_MOST_BYTES) if process.stdout else b""
        if len(answer) == _MOST_BYTES:
            process.kill()
        process.wait()
    finally:
        watchdog.cancel()
    return answer


def _is_answer(found: object) -> bool:
    """Tell whether it has the shape of what rlscope_phases.check prints."""
    if not isinstance(found, dict):
        return False
    status, modules, failures = (found.get(name) for name in ("status", "modules", "failures"))
    return (
        isinstance(status, str)
        and isinstance(modules, dict)
        and all(isinstance(outcome, str) for outcome in modules.values())
        and isinstance(failures, list)
        and all(isinstance(text, str) and text.count("\t") == _FAILURE_TABS for text in failures)
    )


def _of_library(library: str, found: dict[str, Any]) -> Iterable[Finding]:
    name = f"phases_{_plain(library)}"
    outcomes = {
        module: outcome
        for module, outcome in found["modules"].items()
        if module.partition(".")[0] == library
    }
    failures = [text.split("\t")[1:] for text in found["failures"]]
    failed = [fields for fields in failures if fields[0].partition(".")[0] == library]
    for adapter, error, message in failed:
        what = f"the adapter of {adapter} fails: {error}: {message}"
        yield Finding(name, "warning", _plain(what), _REPORT)
    for module, outcome in outcomes.items():
        if outcome not in ("found", "absent"):
            yield Finding(name, "note", _plain(f"{module} cannot be imported: {outcome}"))
    usable = [module for module, outcome in outcomes.items() if outcome == "found"]
    if not usable:
        yield Finding(name, "warning", f"none of the modules we know: {', '.join(outcomes)}")
    elif not failed:
        yield Finding(name, "ok", _plain(f"adapters install: {', '.join(usable)}"))


def _plain(text: str) -> str:
    """Return a text of another user's program as it may stand on a terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)
