"""scripts/hooks: what phases.table watches, held to the source of a package made here."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

    from hooks_lib.packages import Packages

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = """
from contextlib import contextmanager
from .base import Base
class Trainer(Base):
    def collect(self): return 1
    def parts(self): yield 1
    async def wait(self): return 1
    @staticmethod
    def alone(): return 1
class Clock:
    def __init__(self, name): self.name = name
    def begin(self, what): pass
    def finish(self): pass
    @contextmanager
    def record_time(self, what=None): yield
    def work(self):
        with self.record_time(UPDATE): pass
        with timer(f"{self.name}_offload"): pass
        with timer("first"): pass
        print("printed")
UPDATE = "update"
"""


@pytest.fixture(scope="module")
def hooks() -> dict[str, ModuleType]:
    added = [str(REPOSITORY / "scripts"), str(REPOSITORY / "cupti" / "python")]
    sys.path[:0] = added
    try:
        names = ("hooks_lib.packages", "hooks_lib.rows", "rlscope_phases.table")
        return {name.rpartition(".")[2]: importlib.import_module(name) for name in names}
    finally:
        for path in added:
            sys.path.remove(path)


@pytest.fixture
def packages(hooks: dict[str, ModuleType], tmp_path: Path) -> Packages:
    with zipfile.ZipFile(tmp_path / "mine-1.2.0-py3-none-any.whl", "w") as archive:
        archive.writestr("mine-1.2.0.data/purelib/mine/trainer.py", SOURCE)
        archive.writestr("mine/base.py", "class Base:\n    def inherited(self): return 1\n")
    made: Packages = hooks["packages"].Packages(tmp_path, is_newest=False)
    return made


@pytest.mark.parametrize(
    ("where", "called", "fault"),
    [
        ("call Trainer.collect", "-", ""),
        ("call Trainer.inherited", "-", ""),
        ("calls Base.inherited", "-", ""),
        ("call Trainer.missing", "-", "no Trainer.missing"),
        ("call Missing.collect", "-", "no Missing.collect"),
        ("call Trainer.parts", "-", "calling Trainer.parts only makes it"),
        ("call Trainer.wait", "-", "calling Trainer.wait only makes it"),
        ("call Trainer.alone", "-", "Trainer.alone is a staticmethod"),
        ("timer Clock.begin Clock.finish .name", "update, *_offload, first", ""),
        ("timer Clock.begin Clock.finish .label", "update", "nothing sets .label"),
        ("timer Clock.begin Clock.finish 1", "update", "Clock.finish(self) has no argument 1"),
        ("timer Clock.begin Clock.finish .name", "printed", "nothing is timed as printed"),
        ("context Clock.record_time 1", "update in mine.base", ""),
        ("context Clock.record_time 1/caller", "update in mine.other", "no module mine.other"),
        (
            "context Clock.record_time 2",
            "update",
            "Clock.record_time(self, what) has no argument 2",
        ),
        ("context Trainer.parts 0", "update", "Trainer.parts makes no context manager"),
    ],
)
def test_a_row_is_held_to_the_source(
    hooks: dict[str, ModuleType], packages: Packages, where: str, called: str, fault: str
) -> None:
    module = "mine.base" if "Base" in where else "mine.trainer"
    text = f"mine | * | {module} | {where} | {called} | rollout | main | source 1.2"
    (row,) = hooks["table"].parse(text)
    faults = hooks["rows"].faults_of([row], packages)
    assert faults == ([f"{module}: {where}: {fault}"] if fault else [])


def test_a_module_that_is_gone_and_an_adapter_are_faults(
    hooks: dict[str, ModuleType], packages: Packages
) -> None:
    rows = hooks["table"].parse(
        "mine | * | mine.gone | call collect | - | rollout | main | source 1.2\n"
        "mine | * | mine.base | adapter environments:adapt_env | - | - | any | source 1.2\n"
    )
    assert hooks["rows"].faults_of(rows, packages) == [
        "mine.gone: call collect: no such module",
        *[
            f"mine.base: adapter environments:adapt_env: no {x}"
            for x in ("Env.reset", "Env.step", "Env")
        ],
    ]


def test_rows_with_a_version_are_most_of_the_table(hooks: dict[str, ModuleType]) -> None:
    """Who adds a row says where it comes from, in one of four ways."""
    table = hooks["table"]
    text = (REPOSITORY / "cupti/python/rlscope_phases/phases.table").read_text()
    kinds = {"program", "real", "source"}
    for row in table.parse(text):
        word, _, version = row.tested.partition(" ")
        assert (word in kinds and version) or row.tested in ("stub", "-"), row.tested
        assert (row.tested == "-") == (row.kind == "unknown")


def test_the_command_says_what_is_missing_and_fails(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "accelerate-1.15.0-py3-none-any.whl", "w") as archive:
        archive.writestr("accelerate/accelerator.py", "class Accelerator:\n    pass\n")
        archive.writestr("accelerate/template.py", "{{ no Python }}\n")
    command = [sys.executable, REPOSITORY / "scripts" / "hooks", "accelerate"]
    done = subprocess.run(
        [*command, "--packages", tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "accelerate: accelerate-1.15.0-py3-none-any.whl: 1 rows, 1 faults",
        "  accelerate.accelerator: call Accelerator.save_state: no Accelerator.save_state",
    ]
