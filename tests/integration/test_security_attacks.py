"""What a hostile user puts in the way of `sudo rlscope-trace`, and what a hostile target does."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import WORKLOADS, in_matrix
from native_harness import build
from recording import COMMAND, USER, assert_conserved, query, rlscope
from trace_builder import TraceBuilder, run

pytestmark = pytest.mark.root

# A Python of the machine: the user may not enter the folder of the tests' own.
PYTHON = "/usr/bin/python3"
# PTRACE_ATTACH: whoever is attached to obeys, with all its rights.
ATTACH = """
import ctypes, os
print(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))
"""
PLANTED = "open({hit!r}, 'a').write('x')"


def record(output: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Record as `sudo` would of the user, with what else is in the environment."""
    user = {"SUDO_UID": str(USER), "SUDO_GID": str(USER), "SUDO_USER": "somebody"}
    done = subprocess.run(
        [*COMMAND, "--no-calibrate", "-o", str(output), "--", *command],
        env={**os.environ, **user, **environment},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_target_of_the_same_user_cannot_take_the_recorder_over(folder: Path) -> None:
    """The recorder is the user then, and has rights that the user has not."""
    done = record(folder / "trace.duckdb", PYTHON, "-c", ATTACH)
    assert (done.returncode, done.stdout) == (0, "-1\n"), done.stderr
    assert_conserved(folder / "trace.duckdb")


@pytest.mark.parametrize("named", ["TMPDIR", "HOME", "XDG_CACHE_HOME"])
def test_folders_that_the_environment_names_lead_nowhere(folder: Path, named: str) -> None:
    """Modules of the user's lie there, and everything that is made there is a link out of it."""
    hit, planted = folder / "hit", folder / "planted"
    planted.mkdir()
    for module in ("sitecustomize", "usercustomize", "duckdb", "numpy", "typer"):
        (planted / f"{module}.py").write_text(PLANTED.format(hit=str(hit)))
    (planted / "rlscope-trace").symlink_to("/etc")
    before = sorted(Path("/etc").iterdir())
    done = record(folder / "trace.duckdb", "true", **{named: str(planted)})
    assert done.returncode == 0, done.stderr
    assert not hit.exists()
    assert sorted(Path("/etc").iterdir()) == before
    assert (folder / "trace.duckdb").stat().st_uid == USER


@pytest.mark.parametrize("threads", [2, 5, *in_matrix(3, 4, 6)])
def test_few_threads_are_one_error(folder: Path, threads: int) -> None:
    """The user that called sudo may have few more: the program keeps its exit code, or never ran.

    Who has CAP_SYS_RESOURCE may have as many as it likes.
    """
    limit = (threads, threads)
    done = subprocess.run(
        [*COMMAND, "--no-calibrate", "-o", "trace.duckdb", "--", "sh", "-c", "exit 7"], cwd=folder,
        env={**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER), "SUDO_USER": "somebody"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, limit),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 7 or (done.returncode == 1 and "error: " in done.stderr)


LOWER = """
import os, resource, sys
resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (8, 8))
sys.exit(7)
"""


def test_a_target_of_the_same_user_lowers_the_limits_of_the_recorder(folder: Path) -> None:
    """As its owner may of any process; to raise them again takes CAP_SYS_RESOURCE."""
    trace = folder / "trace.duckdb"
    done = record(trace, PYTHON, "-c", LOWER)
    assert done.returncode == 7, done.stderr
    if not trace.exists():
        assert f"hint: rlscope-trace recover {trace}.spool" in done.stderr
        assert rlscope("recover", f"{trace}.spool").returncode == 0
    assert_conserved(trace)


CUT = """
import os, sys, time
spool = sys.argv[1]
until = time.monotonic() + 0.5
while time.monotonic() < until:
    for name in os.listdir(spool):
        os.truncate(os.path.join(spool, name), 0)
sys.exit(7)
"""


def test_a_target_of_the_same_user_cuts_the_spool(folder: Path) -> None:
    """It loses its own records; the recorder must not end by SIGBUS."""
    trace = folder / "trace.duckdb"
    done = record(trace, PYTHON, "-c", CUT, f"{trace}.spool")
    assert done.returncode == 7, done.stderr


def test_a_file_of_root_is_not_read_as_what_ray_tells(folder: Path, tmp_path: Path) -> None:
    """What it holds would lie in the spool, which is the user's."""
    secret = tmp_path / "closed" / "key"
    secret.parent.mkdir(mode=0o700)
    secret.write_text('{"node": {"node_id": "S3cret", "host": "S3cret"}}')
    # Its output is the user's, and so is what is left of the session in the trace.
    done = subprocess.run(
        [*COMMAND, "record", "--no-calibrate", "--ray", str(secret),
         "-o", "trace.duckdb", "--", "true"], cwd=folder,
        env={**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER), "SUDO_USER": "somebody"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"S3cret" not in (folder / "trace.duckdb").read_bytes()


def test_a_key_of_root_does_not_pass_for_a_revision(folder: Path, tmp_path: Path) -> None:
    """The work tree is the user's, and leads to a file that the user may not read."""
    key = "0123456789abcdef" * 2 + "01234567"
    tmp_path.chmod(0o700)
    (tmp_path / "key").write_text(f"{key}\n")
    heads = folder / ".git" / "refs" / "heads"
    heads.mkdir(parents=True)
    (heads / "x").symlink_to(tmp_path)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/x/key\n")
    done = subprocess.run(
        [*COMMAND, "--no-calibrate", "-o", "trace.duckdb", "--", "true"], cwd=folder,
        env={**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER), "SUDO_USER": "somebody"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    trace = folder / "trace.duckdb"
    assert query(trace, "SELECT count(*) FROM meta WHERE contains(value, ?)", [key]) == [(0,)]


@pytest.mark.parametrize("value", ["-1", "x", "4294967295", "99999999999", "0x10", ""])
def test_an_invoking_user_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    done = record(tmp_path / "trace.duckdb", "true", SUDO_UID=value)
    if done.returncode != 0:
        assert done.stderr.startswith("error: ")
        assert "\nhint: " in done.stderr
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [16, 24, 40, 64])
def test_few_files_are_one_error_before_anything_runs(tmp_path: Path, limit: int) -> None:
    done = rlscope(
        "-o", tmp_path / "trace.duckdb", "--", "touch", tmp_path / "ran",
        prefix=["prlimit", f"--nofile={limit}:{limit}"],
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: the limit of open files is {limit}")
    assert list(tmp_path.iterdir()) == []


def test_ten_thousand_threads_with_names_that_a_terminal_would_obey(tmp_path: Path) -> None:
    program = build(WORKLOADS / "many_threads.c", tmp_path / "many_threads")
    trace = tmp_path / "trace.duckdb"
    done = rlscope("--no-calibrate", "-o", trace, "--", program, "10000")
    assert done.returncode == 0, done.stderr
    made = int(done.stdout)
    assert query(trace, "SELECT count(*) FROM thread") == [(made + 1,)]
    assert_conserved(trace)
    for words in (
        done.stderr, rlscope("summarize", trace).stdout,
        rlscope("sql", trace, "SELECT name FROM thread LIMIT 20").stdout,
    ):  # fmt: skip
        assert not any(c < " " and c != "\n" for c in words)


def test_a_target_may_hide_in_namespaces(tmp_path: Path) -> None:
    trace = tmp_path / "trace.duckdb"
    done = rlscope(
        "--no-calibrate", "-o", trace, "--", "unshare", "--user", "--map-root-user", "--mount",
        "--pid", "--fork", "--mount-proc", "sh", "-c", "mount -t tmpfs x /tmp; true; echo $$",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert_conserved(trace)
    [(processes,)] = query(trace, "SELECT count(*) FROM process")
    assert processes >= 3


PLANTED_MODULES = ("runpy.py", "json.py", "typing.py", "rlscope_trace/__init__.py")


@pytest.fixture
def trap(folder: Path) -> Path:
    """Give a folder of the user's with modules in it that leave a mark when they are imported."""
    for name in PLANTED_MODULES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(PLANTED.format(hit=str(folder / "hit")))
    return folder


def test_the_recorder_that_gate_starts_takes_no_code_from_the_current_folder(
    trap: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [Path(sys.executable).with_name("rlscope-trace"),
         "gate", "--save", "base.json", "--runs", "1", "--", "true"],
        cwd=trap, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert not (trap / "hit").exists()
    assert done.returncode == 0, done.stderr
    assert (trap / "base.json").is_file()
    assert list(scratch.iterdir()) == []


def test_root_probes_nothing_in_a_folder_of_another_user(trap: Path, tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=7, end_ns=100), states=[run(100)])
    done = subprocess.run(
        [Path(sys.executable).with_name("rlscope-trace"),
         "whatif", builder.write(), "--replace", "step=probe:json:make"],
        cwd=trap, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert not (trap / "hit").exists()
    assert done.returncode == 1
    assert done.stderr.startswith("error: a probe is code of the current folder")


def test_under_sudo_gate_is_the_user_also_without_a_program(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    trace = folder / "trace.duckdb"
    assert record(trace, "true").returncode == 0
    for output, code in ((tmp_path / "base.json", 1), (folder / "base.json", 0)):
        done = subprocess.run(
            [*COMMAND, "gate", "--save", str(output), str(trace)],
            env={**os.environ, "SUDO_UID": str(USER), "SUDO_GID": str(USER)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
    assert list(tmp_path.iterdir()) == []
    assert (folder / "base.json").stat().st_uid == USER


def test_a_module_of_another_user_is_not_run_as_root(tmp_path: Path) -> None:
    """In a folder of root's that nobody else can change: what lies there may be another's."""
    ran, module = tmp_path / "ran", tmp_path / "closed/my_envs.py"
    module.parent.mkdir(mode=0o755)
    module.write_text(f"open({str(ran)!r}, 'w')\n")
    os.chown(module, USER, USER)
    asked = [*COMMAND, "whatif", "none.duckdb", "--replace", "simulation=probe:my_envs:made"]
    done = subprocess.run(
        asked, cwd=module.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert "others than root can change what is there" in done.stderr
    assert not ran.exists()
    os.chown(module, 0, 0)
    nowhere = module.with_name("nowhere.py")
    nowhere.symlink_to("not_there.py")
    done = subprocess.run(
        asked, cwd=module.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert "others than root can change what is there" in done.stderr
    assert not ran.exists()
    nowhere.unlink()
    subprocess.run(asked, cwd=module.parent, capture_output=True, timeout=60, check=False)
    assert ran.exists()
