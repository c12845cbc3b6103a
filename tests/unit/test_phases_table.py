"""The table of phases, and rows of a user's own: what they may say, and what is refused."""

import re
import sys
from pathlib import Path

import pytest

from rlscope_trace.errors import UsageError
from rlscope_trace.record.phase_rows import read_rows

PHASES_FOLDER = Path(__file__).resolve().parents[2] / "cupti" / "python"
sys.path.insert(0, str(PHASES_FOLDER))
try:
    from rlscope_phases import finder, table
finally:
    sys.path.remove(str(PHASES_FOLDER))

TABLE = (PHASES_FOLDER / "rlscope_phases" / "phases.table").read_text()
ROW = "mine | * | mine.trainer | call Trainer.collect | - | rollout | main | no"


def test_our_own_table_is_one() -> None:
    rows = table.parse(TABLE)
    assert len(rows) > 100
    # Each adapter is there, and each row has somebody who watches for its module.
    for row in rows:
        if row.kind == "adapter":
            file, _, function = row.where[0].partition(":")
            source = (PHASES_FOLDER / "rlscope_phases" / f"{file}.py").read_text()
            assert f"\ndef {function}(" in source, row.where
    watched = finder.modules(TABLE)
    late = {row.module for row in rows if finder.is_plain_wait(row.phase, row.names)}
    assert {row.module for row in rows} == set(watched) | late
    assert not late & set(watched)


def test_the_phases_are_those_of_the_native_half() -> None:
    source = (PHASES_FOLDER / "thread_phase.c").read_text()
    names = re.findall(r'\[RLS_[A-Z_]+\] = "(\w+)"', source)
    header = (PHASES_FOLDER / "thread_phase.h").read_text()
    numbered = re.findall(r"^  RLS_([A-Z_]+)", header.split("enum rls_phase {")[1], re.M)
    assert tuple(names) == table.PHASES
    # The enumeration begins with none, and ends with how many there are.
    assert tuple(one.lower() for one in numbered[1 : len(names) + 1]) == table.PHASES


@pytest.mark.parametrize(
    ("pattern", "name", "is_meant"),
    [
        ("gen", "gen", True), ("gen", "gen_max", False), ("gen*", "gen_max", True),
        ("*.generate", "Trainer.generate", True), ("*.generate", "generate", False),
        ("*log_probs*", "ref_log_probs_2", True), ("*", "anything", True),
    ],
)  # fmt: skip
def test_names_are_matched_at_their_ends(pattern: str, name: str, is_meant: bool) -> None:
    assert table.matches(pattern, name) is is_meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a | b", "line 1: 2 columns, not 8: library | versions | module"),
        ("# x\n\n" + ROW.replace("rollout", "thinking"), "line 3: phase 'thinking' is not known"),
        (
            ROW.replace("call Tr", "watch Tr"),
            "line 1: where 'watch' is not known: call, gives, calls",
        ),
        (ROW.replace("call Trainer.collect", "adapter a:b"), "where 'adapter' is not known"),
        (ROW.replace("call Trainer.collect", "unknown"), "where 'unknown' is not known"),
        (ROW.replace("call ", "calls "), ""),
        (ROW.replace("call Trainer.collect", "calls collect"), "'collect' is no Class.method"),
        (ROW.replace("Trainer.collect", "a.b.c"), "'a.b.c' is no function and no Class.method"),
        (ROW.replace("Trainer.collect", "eval(1)"), "'eval(1)' is no function"),
        (ROW.replace("mine.trainer", "__main__"), "'__main__' is not imported"),
        (ROW.replace("mine.trainer", "mine/../x"), "is no name of a module"),
        (ROW.replace("| * |", "| >=x |"), "versions '>=x': * or, for example, >=1.2,<3"),
        (ROW.replace("main", "moon"), "process 'moon' is not known: any, main, worker, driver"),
        (ROW.replace("| rollout", "|"), "no phase"),
        (ROW.replace("call Trainer.collect", "timer T.a T.b .name"), "no names of what is timed"),
        (ROW.replace("call Trainer.collect | -", "timer T.a T.b name | x"), "NAME is .attribute"),
        (ROW.replace("call Trainer.collect | -", "timer T.a .name | x"), "timer BEGIN END NAME"),
        ('" | " | " | " | - | wait | main | no', "line 1: no library"),
        (ROW.replace("mine |", "mi\x1bne |"), "no library"),
        ("", "it has no rows"),
        ("# nothing\n", "it has no rows"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rows"
    path.write_text(text)
    if not said:
        assert read_rows(path, None) == text
        return
    with pytest.raises(UsageError) as caught:
        read_rows(path, None)
    assert said in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "docs/phases.md" in (caught.value.hint or "")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_text((ROW + "\n") * 2000)
    for path, said in (
        (tmp_path / "missing", "No such file"), (tmp_path, "Is a directory"),
        (tmp_path / "bytes", "no UTF-8"), (tmp_path / "large", "larger than 64 KiB"),
        (Path("/dev/zero"), "no regular file"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            read_rows(path, None)


def test_comments_are_left_out_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text(f"# mine\n\n{ROW}\n")
    (tmp_path / "link").symlink_to(tmp_path / "rows")
    assert read_rows(tmp_path / "link", None) == ROW
