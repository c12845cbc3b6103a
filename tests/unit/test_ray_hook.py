"""What the workers of a Ray job get from its driver, merged with what the program gives them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rlscope_trace.fleet.program import launched_environment, worker_variables
from rlscope_trace.record.shims import PYTHON_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a module of the shim's
    monkeypatch.syspath_prepend(str(PYTHON_FOLDER))
    for name in [name for name in sys.modules if name.split(".")[0] == "rlscope_phases"]:
        monkeypatch.delitem(sys.modules, name)
    from rlscope_phases import ray_hook

    environment = launched_environment("10.0.0.1:6379", "fleet-0123456789", 77, {"HOME": "/home/u"})
    monkeypatch.setattr(ray_hook.os, "environ", environment)
    return ray_hook


def asked(hook: Any, runtime_env: dict[str, Any] | None) -> dict[str, str]:  # noqa: ANN401
    changed: dict[str, str] = hook.add_variables(runtime_env)["env_vars"]
    return changed


def test_workers_report_to_the_recorder_of_their_own_raylet(hook: Any) -> None:  # noqa: ANN401
    variables = asked(hook, None)
    assert variables["RLSCOPE_SESSION"] == "fleet-0123456789-${RAY_RAYLET_PID}"
    assert variables["PYTHONPATH"] == f"{PYTHON_FOLDER}:${{PYTHONPATH}}"
    assert variables["RLSCOPE_AUTO"] == "1"
    assert hook.os.environ["RLSCOPE_SESSION"] == "fleet-0123456789-77"
    assert hook.os.environ["RAY_ADDRESS"] == "10.0.0.1:6379"


def test_what_the_program_sets_stays(hook: Any) -> None:  # noqa: ANN401
    own = {"pip": ["x"], "env_vars": {"A": "1", "PYTHONPATH": "/mine", "RLSCOPE_AUTO": "0"}}
    changed = hook.add_variables(own)
    assert changed["pip"] == ["x"]
    assert changed["env_vars"]["A"] == "1"
    assert changed["env_vars"]["RLSCOPE_AUTO"] == "0"
    assert changed["env_vars"]["PYTHONPATH"] == f"{PYTHON_FOLDER}:/mine"
    assert own["env_vars"] == {"A": "1", "PYTHONPATH": "/mine", "RLSCOPE_AUTO": "0"}


def test_a_hook_of_the_programs_own_is_asked_first(
    hook: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own: Callable[[Any], Any] = lambda given: {**(given or {}), "working_dir": "/w"}  # noqa: E731
    monkeypatch.setitem(sys.modules, "their_hook", SimpleNamespace(change=own))
    hook.os.environ["RAY_RUNTIME_ENV_HOOK"] = "their_hook.change"
    hook.insert()
    assert hook.os.environ["RAY_RUNTIME_ENV_HOOK"] == "rlscope_phases.ray_hook.add_variables"
    assert hook.add_variables(None)["working_dir"] == "/w"
    # Called again, as by a driver that another one started: it does not ask itself.
    hook.insert()
    assert hook.add_variables(None)["working_dir"] == "/w"


def test_programs_that_are_no_recorded_driver_keep_their_hook(hook: Any) -> None:  # noqa: ANN401
    del hook.os.environ["RLSCOPE_RAY_VARIABLES"]
    hook.insert()
    assert "RAY_RUNTIME_ENV_HOOK" not in hook.os.environ


def test_the_variables_are_those_that_environment_prints() -> None:
    assert worker_variables("run-0123456789")["RLSCOPE_SESSION"] == (
        "run-0123456789-${RAY_RAYLET_PID}"
    )
