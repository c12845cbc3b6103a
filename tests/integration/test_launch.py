"""A launched program is started late, and otherwise as if we were not there."""

import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

# A recorder in small: opens files and handles signals as the real one does, launches, passes on.
RECORDER = """
import json, os, signal, socket, sys
from pathlib import Path
from rlscope_trace.errors import TracerError
from rlscope_trace.record.launch import SignalSetup, launch
from rlscope_trace.privileges import invoking_environment, invoking_identity

knobs = json.loads(sys.argv[1])
signals = SignalSetup.capture()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
    signal.signal(number, lambda *_: None)
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
held = [open("/dev/null"), socket.socketpair()]
identity = invoking_identity()
cwd = knobs.get("cwd")
child = launch(sys.argv[2:], identity=identity, environment=invoking_environment(identity),
               cwd=Path(cwd) if cwd else None, signals=signals)
if knobs.get("hold"):
    print(child.pid, flush=True)
    os.read(0, 1)
if knobs.get("abandon"):
    child.abandon()
    sys.exit(child.exit_status())
try:
    child.release()
except TracerError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
if "send" in knobs:
    child.forward_signal(knobs["send"])
status = child.wait()
assert child.poll() == status == child.exit_status()
child.forward_signal(signal.SIGTERM)
child.close()
sys.exit(status)
"""


def recorder(*command: str, **knobs: object) -> list[str]:
    return [sys.executable, "-c", RECORDER, json.dumps(knobs), *command]


def run(*command: str, **knobs: object) -> "subprocess.CompletedProcess[str]":
    """Launch a command through the small recorder."""
    return subprocess.run(
        recorder(*command, **knobs), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exit_code_is_the_programs(code: int) -> None:
    done = run("sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_exit_code_of_a_program_killed_by_a_signal(number: int) -> None:
    assert run("sh", "-c", f"kill -{number} $$").returncode == 128 + number


def test_a_forwarded_signal_arrives() -> None:
    assert run("sleep", "60", send=signal.SIGTERM).returncode == 128 + signal.SIGTERM


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    done = run("no-such-program-of-ours")
    assert done.returncode == 127
    assert done.stderr == "error: no-such-program-of-ours: command not found\n"
    assert run(str(tmp_path / "missing")).returncode == 127
    assert run("").returncode == 127


def make_file(path: Path, content: bytes, mode: int) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_a_command_that_cannot_be_executed(tmp_path: Path) -> None:
    plain = make_file(tmp_path / "plain", b"#!/bin/sh\n", 0o644)
    lost = make_file(tmp_path / "lost", b"#!/no/such/interpreter\n", 0o755)
    binary = make_file(tmp_path / "binary", b"\x7fELF\0\0\0\0", 0o755)
    for path, words in ((plain, "permission denied"), (lost, "interpreter"), (binary, "format")):
        done = run(path)
        assert done.returncode == 126, path
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert run(str(tmp_path)).returncode == 126


def test_a_script_without_interpreter_line_runs_in_a_shell(tmp_path: Path) -> None:
    script = make_file(tmp_path / "script", b'echo "got $1"; exit 3\n', 0o755)
    done = run(script, "word")
    assert (done.returncode, done.stdout) == (3, "got word\n")


def test_path_is_searched_past_what_cannot_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        make_file(tmp_path / name / "tool", f"#!/bin/sh\necho {name}\n".encode(), mode)
    monkeypatch.setenv("PATH", f"/no/such:{tmp_path}/first:{tmp_path}/second:/usr/bin:/bin")
    assert run("tool").stdout == "second\n"
    monkeypatch.setenv("PATH", f"{tmp_path}/first:/usr/bin:/bin")
    assert run("tool").returncode == 126


def test_stdin_and_working_directory_pass_through(tmp_path: Path) -> None:
    done = subprocess.run(
        recorder("cat"), input=b"to the program", capture_output=True, timeout=60, check=True
    )
    assert done.stdout == b"to the program"
    assert run("pwd").stdout == f"{Path.cwd()}\n"
    assert run("pwd", "-P", cwd=str(tmp_path)).stdout == f"{tmp_path.resolve()}\n"
    missing = run("pwd", cwd=str(tmp_path / "missing"))
    assert missing.returncode == 1
    assert "cannot be the working directory: no such file" in missing.stderr


def test_the_environment_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("ODD", "a=b\nc \udcff")
    direct = subprocess.run(["env", "-0"], capture_output=True, timeout=60, check=True).stdout
    launched = subprocess.run(recorder("env", "-0"), capture_output=True, timeout=60, check=True)
    assert sorted(launched.stdout.split(b"\0")) == sorted(direct.split(b"\0"))


def test_no_file_of_ours_is_open_in_the_program() -> None:
    listing = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"
    command = [sys.executable, "-c", listing]
    direct = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    # 3 is the listing itself.
    assert run(*command).stdout == direct.stdout == "['0', '1', '2', '3']\n"


def test_a_file_of_the_callers_stays_open_in_the_program(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+") as file:
        subprocess.run(
            recorder("sh", "-c", f"echo from the program >/dev/fd/{file.fileno()}"),
            pass_fds=[file.fileno()],
            timeout=60,
            check=True,
        )
    assert (tmp_path / "file").read_text() == "from the program\n"


def signal_lines(command: list[str], *options: str) -> list[str]:
    text = subprocess.run(
        ["env", *options, *command], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return [line for line in text.splitlines() if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--ignore-signal=HUP,INT", "--block-signal=USR1"),
        ("--ignore-signal=CHLD,QUIT", "--block-signal=INT,TERM"),
    ],
)
def test_signals_are_as_without_us(options: tuple[str, ...]) -> None:
    reader = ["cat", "/proc/self/status"]
    direct = signal_lines(reader, *options)
    assert len(direct) == 3
    assert signal_lines(recorder(*reader), *options) == direct


def test_process_group_session_and_parent_are_ours() -> None:
    report = "import os; print(os.getpgid(0), os.getsid(0), os.getppid())"
    with subprocess.Popen(
        recorder(sys.executable, "-c", report), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        words = process.stdout.read().split()
    assert words == [str(os.getpgid(0)), str(os.getsid(0)), str(process.pid)]


def wait_for_end(pidfd: int) -> None:
    assert select.select([pidfd], [], [], 20)[0], "the process did not end"
    os.close(pidfd)


def test_nothing_runs_before_the_release(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with subprocess.Popen(
        recorder("touch", str(mark), hold=True), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdin
        pid = int(process.stdout.readline())
        assert Path(f"/proc/{pid}/comm").read_text() != "touch\n"
        assert not mark.exists()
        process.stdin.close()
    assert process.returncode == 0
    assert mark.exists()


def test_the_program_never_runs_if_the_recorder_dies_before(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with subprocess.Popen(
        recorder("touch", str(mark), hold=True), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        child = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        wait_for_end(child)
    assert not mark.exists()


def test_an_abandoned_program_never_runs(tmp_path: Path) -> None:
    assert run("touch", str(tmp_path / "mark"), abandon=True).returncode == 125
    assert not (tmp_path / "mark").exists()


def test_a_signal_ends_the_waiting_child_as_it_would_the_program(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with subprocess.Popen(
        recorder("touch", str(mark), hold=True), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdin
        pid = int(process.stdout.readline())
        child = os.pidfd_open(pid)
        # The parent may be ahead of the child, which starts with all signals blocked.
        signal.pidfd_send_signal(child, signal.SIGINT)
        wait_for_end(child)
        process.stdin.close()
    assert process.returncode == 128 + signal.SIGINT
    assert not mark.exists()


@pytest.mark.root
def test_under_sudo_it_runs_as_the_invoking_user(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setenv("SUDO_UID", str(nobody.pw_uid))
    monkeypatch.setenv("SUDO_GID", str(nobody.pw_gid))
    done = run("sh", "-c", "cat /proc/self/status; exec env")
    lines = done.stdout.splitlines()
    assert "\t".join(["Uid:", *[str(nobody.pw_uid)] * 4]) in lines
    assert "\t".join(["Gid:", *[str(nobody.pw_gid)] * 4]) in lines
    groups = next(line for line in lines if line.startswith("Groups:")).split()[1:]
    assert set(map(int, groups)) == set(os.getgrouplist("nobody", nobody.pw_gid))
    assert {f"Cap{name}:\t{0:016x}" for name in ("Prm", "Eff", "Amb")} <= set(lines)
    assert f"HOME={nobody.pw_dir}" in lines
    assert "LOGNAME=nobody" in lines


@pytest.mark.root
def test_a_program_closed_to_the_user_is_not_run_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    script = make_file(tmp_path / "script", b"#!/bin/sh\nid -u\n", 0o700)
    done = run(script)
    # 127 where the user cannot even look into the folder, as a shell has it.
    assert done.returncode in (126, 127)
    assert done.stdout == ""


@pytest.fixture
def sudoer(poll_until: Callable[..., object]) -> Iterator[str]:
    """Make a user for one test, who may use sudo without a password."""
    name = f"rlscope-test-{os.getpid()}"
    rule = Path("/etc/sudoers.d") / name
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True)
    try:
        rule.write_text(f"{name} ALL=(ALL) NOPASSWD:SETENV: ALL\nDefaults:{name} use_pty\n")
        rule.chmod(0o440)
        yield name
    finally:
        rule.unlink(missing_ok=True)
        uid = pwd.getpwnam(name).pw_uid
        poll_until(lambda: not processes_of(uid), what=f"the processes of {name} end")
        subprocess.run(["userdel", "--remove", name], stderr=subprocess.DEVNULL, check=True)


def processes_of(uid: int) -> list[Path]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid == uid:
                found.append(folder)
    return found


SUDO_CALL = """#!/bin/sh
export KEPT='of the user' CHANGED=before LD_LIBRARY_PATH=/opt/lib
exec sudo -n CHANGED=after env "PATH=$PATH" ADDED=1 PYTHONPATH='{python_path}' \\
  {python} {home}/recorder.py '{{}}' sh -c 'id -u; id -g; env' >{home}/report
"""


@pytest.mark.root
@pytest.mark.parametrize("terminal", [False, True])
def test_under_the_real_sudo(sudoer: str, terminal: bool) -> None:
    entry = pwd.getpwnam(sudoer)
    home = Path(entry.pw_dir)
    (home / "recorder.py").write_text(RECORDER)
    call = SUDO_CALL.format(
        python_path=os.pathsep.join(filter(None, sys.path)), python=sys.executable, home=home
    )
    script = make_file(home / "call", call.encode(), 0o755)
    path = "/venv/bin:/usr/bin:/bin"
    command = ["script", "-qec", script, "/dev/null"] if terminal else [script]
    start = ["env", "-i", f"PATH={path}", "TERM=vt100", f"HOME={home}", f"USER={sudoer}"]
    done = subprocess.run(
        ["runuser", "-u", sudoer, "--", *start, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=home,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    uid, gid, *rest = (home / "report").read_text().splitlines()
    assert (int(uid), int(gid)) == (entry.pw_uid, entry.pw_gid)
    variables = dict(line.split("=", 1) for line in rest)
    assert not [name for name in variables if name.startswith("SUDO_")]
    expected = {
        "KEPT": "of the user",
        "CHANGED": "after",
        "ADDED": "1",
        "LD_LIBRARY_PATH": "/opt/lib",
        "PATH": path,
        "HOME": str(home),
        "USER": sudoer,
    }
    assert {name: variables.get(name) for name in expected} == expected


LEASE = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
leased = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.readline()
"""


def test_a_program_that_cannot_be_executed_yet_is_not_waited_for(tmp_path: Path) -> None:
    """Its owner holds a lease on it, for which the OS kernel waits 45 s; then it exits with 0."""
    program = tmp_path / "true"
    shutil.copy("/bin/true", program)
    with subprocess.Popen(
        [sys.executable, "-c", LEASE, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"leased\n"
        done = run(str(program), send=signal.SIGTERM)
        holder.communicate(b"\n")
    assert done.returncode == 128 + signal.SIGTERM
