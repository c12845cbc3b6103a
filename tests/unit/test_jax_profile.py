"""A profile by JAX of the launched program: what is asked for, and what the program does.

JAX itself is a stand-in here: it notes what it is asked to do.
"""

from pathlib import Path

import pytest

import phases_harness
from phases_harness import Harness, Recording
from rlscope_trace.errors import UsageError
from rlscope_trace.record import shims
from rlscope_trace.record.jax_profile import (
    JaxProfile,
    count_profiles,
    folder_beside,
    parse_window,
)

JAX = """
import threading
begun, ended = threading.Event(), threading.Event()
class ProfileOptions:
    python_tracer_level = 1
class profiler:
    {options}
    @staticmethod
    def start_trace(folder, **asked):
        level = getattr(asked.get("profiler_options"), "python_tracer_level", None)
        print("start", folder.rpartition("/")[2], level, flush=True)
        begun.set()
        {fails}
    @staticmethod
    def stop_trace():
        print("stop", flush=True)
        ended.set()
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.fixture
def run(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: ANN201
    def runs(window: str, text: str, *, old: bool = False, fails: str = "pass") -> Recording:
        options = "pass" if old else "ProfileOptions = ProfileOptions"
        (tmp_path / "jax.py").write_text(JAX.format(options=options, fails=fails))
        monkeypatch.setenv("RLSCOPE_JAX_PROFILE", f"{window}:{tmp_path}/profiles")
        return harness.script(f"import os, jax\n{text}\nprint('over', os.getpid())", tmp_path)

    return runs


@pytest.mark.parametrize(("old", "level"), [(False, "0"), (True, "None")])
def test_it_begins_and_ends_once(
    run,  # noqa: ANN001
    tmp_path: Path,
    *,
    old: bool,
    level: str,
) -> None:
    made = run("0:0.01", "assert jax.ended.wait(60)", old=old)
    first, second, over = made.stdout.splitlines()
    pid = over.split()[1]
    assert (tmp_path / f"profiles/{pid}").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "profiles").stat().st_mode & 0o777 == 0o700
    assert (first, second) == (f"start {pid} {level}", "stop")
    assert made.stderr == ""


def test_it_ends_with_the_program(run) -> None:  # noqa: ANN001
    """And not in a child that was forked meanwhile."""
    text = "assert jax.begun.wait(60); child = os.fork() or exit(0); os.waitpid(child, 0)"
    made = run("0:600", text)
    assert [line.split()[0] for line in made.stdout.splitlines()] == ["start", "over", "stop"]


def test_a_program_that_ends_before_is_not_profiled(run) -> None:  # noqa: ANN001
    assert run("600:1", "").stdout.split()[0] == "over"


def test_what_jax_refuses_is_counted_and_no_business_of_the_program(run) -> None:  # noqa: ANN001
    text = (
        "import time, rlscope_phases.failures as failures\n"
        "while not any('jax.profiler' in what for what in list(failures.counts)):"
        " time.sleep(0.001)\n"
        "print(list(failures.counts))"
    )
    made = run("0:600", text, fails="raise RuntimeError('Only one profile')")
    assert "jax.profiler" in made.stdout
    assert "Only one profile" in made.stdout
    assert "stop" not in made.stdout
    assert made.stderr == ""


def test_a_window_is_two_numbers() -> None:
    assert parse_window("30:2") == JaxProfile(30, 2)
    assert parse_window("0:0.5").variable(Path("/a/b:c.jax")) == "0:0.5:/a/b:c.jax"


@pytest.mark.parametrize(
    "text", ["", "3", "3:0", "3:61", "-1:2", "1e3:2", "nan:1", "3:2:x", "3:2 "]
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="FROM:SECONDS"):
        parse_window(text)


def test_profiles_lie_beside_the_trace(tmp_path: Path) -> None:
    folder = folder_beside(tmp_path / "run.duckdb")
    assert folder == tmp_path / "run.jax"
    assert count_profiles(folder) == 0
    for pid in ("1", "2"):
        place = folder / pid / "plugins/profile/2026_01_01"
        place.mkdir(parents=True)
        (place / "host.xplane.pb").touch()
    assert count_profiles(folder) == 2


def test_only_who_asks_is_profiled() -> None:
    def injected(asked: str) -> dict[str, str]:
        request = shims.Request("rlscope-1", jax_profile=asked)
        variables = {"RLSCOPE_JAX_PROFILE": "0:1:/of/somebody/else"}
        return shims.inject(variables, request, program=None, identity=None).environment

    assert injected("0:1:/x")["RLSCOPE_JAX_PROFILE"] == "0:1:/x"
    assert "RLSCOPE_JAX_PROFILE" not in injected("")
