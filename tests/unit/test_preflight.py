"""Every branch of the doctor's checks, on made-up machines."""

import ast
import errno
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rlscope_analysis.sentences import fact_reason
from rlscope_trace.errors import TracerError
from rlscope_trace.record.preflight import (
    Finding,
    bcc,
    capabilities,
    disk,
    finding,
    kernel,
    package,
    phases,
    sudo_command,
)

ARGV = ("--pid", "4242")
SUDO_HINT = 'sudo env "PATH=$PATH" rlscope-trace --pid 4242'


def status_with(*names: str) -> str:
    mask = sum(1 << capabilities.CAPABILITY_BITS[name] for name in names)
    return f"Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t{mask:016x}\nCapBnd:\t00\n"


def test_sudo_command_quotes_the_users_words() -> None:
    assert sudo_command(ARGV) == SUDO_HINT
    expected = "sudo env \"PATH=$PATH\" rlscope-trace -o 'a b' -- python train.py"
    assert sudo_command(["-o", "a b", "--", "python", "train.py"]) == expected


def test_a_program_of_several_lines_is_pasted_as_it_was_given() -> None:
    """Printed in one line, since a message has no other; a shell makes the same words of it."""
    words = ["-o", "a\tb", "--", "python", "-c", "print('a')\nprint(\"\\n$HOME\")", "\udcff\u2028"]
    command = sudo_command(words)
    assert "\n" not in command
    assert command.isprintable()
    pasted = command.removeprefix('sudo env "PATH=$PATH" rlscope-trace ')
    show = shlex.join([sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))"])
    done = subprocess.run(
        ["bash", "-c", f"{show} {pasted}"], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(done.stdout) == words


def test_sudo_command_works_where_it_is_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In full, as its PATH may have been made for this command alone; also of `python -m`."""
    program = tmp_path / "a venv/bin/rlscope-trace"
    program.parent.mkdir(parents=True)
    in_full = f"sudo env \"PATH=$PATH\" '{program}' --pid 4242"
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert sudo_command(ARGV) == in_full
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setattr(sys, "argv", ["/usr/lib/python3/rlscope_trace/__main__.py"])
    assert sudo_command(ARGV) == SUDO_HINT
    program.touch()
    assert sudo_command(ARGV) == in_full
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert sudo_command(ARGV) == SUDO_HINT


def test_sudo_command_of_a_link_and_of_a_folder_on_the_path_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/rlscope-trace"
    program.parent.mkdir()
    program.touch()
    link = tmp_path / "rt"
    link.symlink_to(program)
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert sudo_command(ARGV) == f'sudo env "PATH=$PATH" {link} --pid 4242'
    monkeypatch.setattr(finding, "_SITE", tmp_path)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "rlscope_trace/__main__.py")])
    monkeypatch.setenv("PYTHONPATH", f"/a:{tmp_path}")
    told = f'sudo env "PATH=$PATH" PYTHONPATH={tmp_path} {program} --pid 4242'
    assert sudo_command(ARGV) == told


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        (["CAP_SYS_ADMIN"], None),
        (["CAP_BPF", "CAP_PERFMON"], None),
        (["CAP_BPF"], "tracing needs CAP_PERFMON"),
        (["CAP_PERFMON"], "tracing needs CAP_BPF"),
        (["CAP_SYS_PTRACE"], "tracing needs CAP_BPF and CAP_PERFMON"),
        ([], "tracing needs CAP_BPF and CAP_PERFMON"),
    ],
)
def test_tracing_capabilities(held: list[str], missing: str | None) -> None:
    effective = capabilities.effective_capabilities(status_with(*held))
    assert effective == frozenset(held)
    finding = capabilities.check_tracing_capabilities(effective, euid=1000, argv=ARGV)
    if missing is None:
        assert (finding.level, finding.remedy) == ("ok", None)
    else:
        assert finding == Finding("capabilities", "error", missing, SUDO_HINT)


def test_root_without_capabilities_is_told_of_the_container() -> None:
    finding = capabilities.check_tracing_capabilities(frozenset(), euid=0, argv=ARGV)
    assert finding.level == "error"
    assert finding.remedy is not None
    assert finding.remedy.startswith("docker run --cap-add BPF")


def test_a_status_without_capabilities_holds_none() -> None:
    assert capabilities.effective_capabilities("Name:\tx\n") == frozenset()


def test_minor_capabilities() -> None:
    def ptrace(held: frozenset[str]) -> Finding:
        return capabilities.check_ptrace_capability(held, euid=1000, argv=ARGV)

    assert ptrace(frozenset({"CAP_SYS_PTRACE"})).level == "note"
    assert ptrace(frozenset({"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"})).level == "ok"
    assert (ptrace(frozenset()).level, ptrace(frozenset()).remedy) == ("warning", SUDO_HINT)
    resource = capabilities.check_resource_capability
    assert resource(frozenset({"CAP_SYS_RESOURCE"})).level == "ok"
    assert resource(frozenset()).level == "note"


def test_user_namespace() -> None:
    assert capabilities.check_user_namespace(capabilities.INITIAL_USER_NAMESPACE).level == "ok"
    finding = capabilities.check_user_namespace(4026532999)
    assert finding.level == "error"
    assert "4026532999" in finding.what


@pytest.mark.parametrize(
    ("release", "level", "words"),
    [
        ("4.19.0-27-amd64", "warning", "older than 5.8"),
        ("5.8.0", "warning", "older than 5.11"),
        ("5.15.0-130-generic", "note", "older than 5.18"),
        ("5.18.0", "ok", "5.18"),
        ("6.1.0-50-amd64", "ok", "6.1.0-50-amd64"),
        ("10.0", "ok", "10.0"),
        ("custom", "note", "custom"),
    ],
)
def test_release(release: str, level: str, words: str) -> None:
    finding = kernel.check_release(release)
    assert finding.level == level
    assert words in finding.what


def test_btf(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    assert kernel.check_btf(path).level == "warning"
    assert "does not exist" in kernel.check_btf(path).what
    path.write_bytes(b"no type information")
    assert "cannot be read" in kernel.check_btf(path).what
    path.write_bytes(b"\x9f\xeb\x01\x00")
    assert kernel.check_btf(path) == Finding("btf", "ok", f"{path} is readable")


def make_tracefs(root: Path) -> Path:
    folder = root / "events/sched/sched_switch"
    folder.mkdir(parents=True)
    (folder / "format").write_text("name: sched_switch\n")
    return root


def test_tracefs_found_in_either_place(tmp_path: Path) -> None:
    second = make_tracefs(tmp_path / "debug")
    finding = kernel.check_tracefs([tmp_path / "tracing", second], needed=True)
    assert finding == Finding("tracefs", "ok", f"{second} is mounted and readable")


def test_tracefs_missing_is_an_error_only_without_btf(tmp_path: Path) -> None:
    root = tmp_path / "tracing"
    assert kernel.check_tracefs([root], needed=False).level == "warning"
    finding = kernel.check_tracefs([root], needed=True)
    assert finding.level == "error"
    assert finding.remedy == f"sudo mount -t tracefs tracefs {root}"


def test_tracefs_closed_to_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def deny(_path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", deny)
    finding = kernel.check_tracefs([tmp_path], needed=False)
    assert finding.level == "warning"
    assert f"{tmp_path} is not readable by this user" in finding.what
    assert finding.remedy is None


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("[none] integrity confidentiality\n", "ok"),
        ("none [integrity] confidentiality\n", "ok"),
        ("none integrity [confidentiality]\n", "error"),
    ],
)
def test_lockdown(tmp_path: Path, text: str, level: str) -> None:
    path = tmp_path / "lockdown"
    path.write_text(text)
    assert kernel.check_lockdown(path).level == level


def test_lockdown_unknown_is_said_to_be_so(tmp_path: Path) -> None:
    path = tmp_path / "lockdown"
    assert kernel.check_lockdown(path).level == "note"
    assert "not known" in kernel.check_lockdown(path).what
    (tmp_path / "lsm").write_text("capability,yama")
    assert kernel.check_lockdown(path).level == "ok"


@pytest.mark.parametrize(
    ("inode", "btf", "level"),
    [
        (kernel.INITIAL_PID_NAMESPACE, True, "ok"),
        (kernel.INITIAL_PID_NAMESPACE, False, "ok"),
        (4026532201, True, "note"),
        (4026532201, False, "error"),
    ],
)
def test_pid_namespace(inode: int, btf: bool, level: str) -> None:
    assert kernel.check_pid_namespace(inode, btf=btf).level == level


def test_a_chroot_into_a_plain_folder_is_told_of(tmp_path: Path) -> None:
    """Its root is no mount: the OS kernel lists those below it alone."""
    path = tmp_path / "mountinfo"
    below = "68 67 0:21 / /proc rw - proc proc rw\n"
    path.write_text(below)
    finding = kernel.check_root_mount(path)
    assert finding.level == "warning"
    assert "mount --bind" in (finding.remedy or "")
    path.write_text(f"67 45 254:0 /srv/root / rw - ext4 /dev/vda rw\n{below}")
    assert kernel.check_root_mount(path).level == "ok"
    assert kernel.check_root_mount(tmp_path / "absent").level == "note"


def test_sysctl(tmp_path: Path) -> None:
    key = "kernel.perf_event_paranoid"
    assert kernel.check_sysctl(key, has_capability=True, root=tmp_path).level == "note"
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/perf_event_paranoid").write_text("4\n")
    with_capability = kernel.check_sysctl(key, has_capability=True, root=tmp_path)
    assert (with_capability.name, with_capability.level) == ("perf_event_paranoid", "ok")
    without = kernel.check_sysctl(key, has_capability=False, root=tmp_path)
    assert without.level == "note"
    assert "kernel.perf_event_paranoid is 4" in without.what


@pytest.mark.parametrize(
    ("value", "is_admin", "has_capability", "level"),
    [
        ("2", False, True, "ok"), ("3", False, True, "warning"), ("4", False, True, "warning"),
        ("3", True, True, "ok"), ("3", False, False, "note"),
    ],
)  # fmt: skip
def test_perf_events_may_be_for_administrators(
    tmp_path: Path, value: str, level: str, *, is_admin: bool, has_capability: bool
) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/perf_event_paranoid").write_text(f"{value}\n")
    found = kernel.check_perf_events(
        is_admin=is_admin, has_capability=has_capability, root=tmp_path
    )
    assert (found.name, found.level) == ("perf_event_paranoid", level)


@pytest.mark.parametrize(
    ("limit_bytes", "release", "can_raise", "level"),
    [
        (65536, "6.1.0", False, "ok"),
        (65536, "5.10.0", False, "warning"),
        (65536, "5.10.0", True, "ok"),
        (kernel.UNLIMITED, "5.10.0", False, "ok"),
        (1 << 30, "5.10.0", False, "ok"),
    ],
)
def test_memlock(limit_bytes: int, release: str, can_raise: bool, level: str) -> None:
    finding = kernel.check_memlock(limit_bytes, release=release, can_raise=can_raise)
    assert finding.level == level


def test_bcc_is_optional(tmp_path: Path) -> None:
    assert bcc.check_bcc(None).level == "note"
    assert bcc.check_bcc(None).remedy == "sudo apt-get install python3-bpfcc"
    assert bcc.check_bcc(tmp_path).level == "ok"


def test_another_bcc_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other/bcc"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    monkeypatch.syspath_prepend(other.parent)
    debian = tmp_path / "dist-packages"
    assert bcc.find_bcc(debian) is None
    (debian / "bcc").mkdir(parents=True)
    (debian / "bcc/libbcc.py").touch()
    assert bcc.find_bcc(debian) == debian / "bcc"
    (other / "libbcc.py").touch()
    assert bcc.find_bcc(debian) == other


def test_kernel_headers(tmp_path: Path) -> None:
    assert bcc.check_kernel_headers("6.1.0", tmp_path).remedy == (
        "sudo apt-get install linux-headers-6.1.0"
    )
    (tmp_path / "usr/src/linux-headers-5.10").mkdir(parents=True)
    other = bcc.check_kernel_headers("6.1.0", tmp_path)
    assert other.level == "note"
    assert "linux-headers-5.10" in other.what
    (tmp_path / "lib/modules/6.1.0/build").mkdir(parents=True)
    assert bcc.check_kernel_headers("6.1.0", tmp_path).level == "ok"


def test_libelf() -> None:
    def fail() -> object:
        raise ImportError("libelf.so.1: cannot open shared object file")

    def fail_in_wheel() -> object:
        raise ImportError("libelf-0-b58343c4.188.so: cannot open shared object file")

    def fail_otherwise() -> object:
        raise ImportError("libc.so.6: version `GLIBC_2.99' not found")

    assert package.check_libelf(object).level == "ok"
    finding = package.check_libelf(fail)
    assert (finding.level, finding.remedy) == ("error", "sudo apt-get install libelf1")
    finding = package.check_libelf(fail_in_wheel)
    assert (finding.level, finding.remedy) == ("error", package.REINSTALL)
    # That is said once, of the native module.
    assert package.check_libelf(fail_otherwise).level == "ok"


def test_bpf_objects(tmp_path: Path) -> None:
    assert package.check_bpf_objects(tmp_path).level == "error"
    (tmp_path / "bpf").mkdir()
    (tmp_path / "bpf/sched.bpf.c").touch()
    assert package.check_bpf_objects(tmp_path).level == "error"
    (tmp_path / "bpf/sched.bpf.o").touch()
    assert package.check_bpf_objects(tmp_path) == Finding("bpf_objects", "ok", "sched.bpf.o")


@pytest.mark.parametrize(
    ("btf", "tracefs", "levels"),
    [
        (True, True, ["ok", "ok"]),
        (True, False, ["ok", "note"]),
        (False, True, ["note", "ok"]),
        (False, False, ["error", "error"]),
    ],
)
def test_a_failing_backend_is_an_error_only_if_all_fail(
    btf: bool, tracefs: bool, levels: list[str]
) -> None:
    backends = [("btf", btf, "no BTF"), ("tracefs", tracefs, "no tracefs")]
    findings = package.check_backends(lambda: backends)
    assert [finding.name for finding in findings] == ["backend_btf", "backend_tracefs"]
    assert [finding.level for finding in findings] == levels


@pytest.mark.parametrize(
    ("error", "words", "remedy"),
    [
        (
            ImportError("no module _capture"),
            "the native module cannot be loaded",
            package.REINSTALL,
        ),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files", None),
        (RuntimeError("libbpf"), "libbpf", None),
        (TracerError("object is damaged"), "object is damaged", None),
    ],
)
def test_backends_that_cannot_be_probed(error: Exception, words: str, remedy: str | None) -> None:
    def fail() -> list[tuple[str, bool, str]]:
        raise error

    (finding,) = package.check_backends(fail)
    assert (finding.level, finding.remedy) == ("error", remedy)
    assert words in finding.what


def test_output_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert disk.output_directory(Path("run.duckdb")) == tmp_path
    assert disk.output_directory(Path()) == tmp_path
    assert disk.output_directory(tmp_path / "new/run.duckdb") == tmp_path / "new"


def test_directory(tmp_path: Path) -> None:
    assert disk.check_directory(tmp_path).level == "ok"
    assert disk.check_directory(tmp_path, lambda _directory: False).level == "error"
    missing = disk.check_directory(tmp_path / "a b")
    assert (missing.level, missing.remedy) == ("error", f"mkdir -p '{tmp_path}/a b'")
    (tmp_path / "file").touch()
    assert disk.check_directory(tmp_path / "file").what == f"{tmp_path}/file is no directory"
    below = disk.check_directory(tmp_path / "file/deep")
    assert (below.level, below.what) == ("error", f"{tmp_path}/file/deep does not exist")


def test_a_directory_closed_to_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(_path: Path) -> object:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", deny)
        finding = disk.check_directory(tmp_path)
    assert finding.level == "error"
    assert finding.what == f"{tmp_path} cannot be used: permission denied"


@pytest.mark.parametrize(
    ("free_bytes", "level"),
    [
        ((64 << 20) - 1, "error"),
        (64 << 20, "warning"),
        ((2 << 30) - 1, "warning"),
        (2 << 30, "ok"),
    ],
)
def test_free_space(tmp_path: Path, free_bytes: int, level: str) -> None:
    assert disk.check_free_space(tmp_path, lambda _directory: free_bytes).level == level


def test_free_space_that_is_not_known(tmp_path: Path) -> None:
    assert disk.check_free_space(tmp_path / "missing").level == "note"


def python(folder: Path, script: str) -> str:
    made = folder / "python"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    return str(made)


def test_the_python_of_a_program_is_asked_where_nobody_can_put_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder is the first that it looks into, and it may be anybody's."""
    monkeypatch.chdir(tmp_path)
    answer = """echo '{"status": "'"in $PWD"'", "modules": {}, "failures": []}'"""
    asked = python(tmp_path, answer)
    (found,) = phases.check_phases(asked, None, fact_reason)
    assert found.what == f"no automatic phases in {asked}: in /"
    (found,) = phases.check_phases("./python", None, fact_reason)
    assert found.what == "no automatic phases in ./python: in /"


@pytest.mark.parametrize(
    "script",
    ["exec head -c 1000000000 /dev/zero", "echo [", "echo '[]'", "exit 3",
     """echo '{"status": "on", "modules": {"torch.x": 1}, "failures": []}'""",
     """echo '{"status": "on", "modules": {"torch.x": "found"}, "failures": ["no tabs"]}'""",
     """echo '{"status": "on", "modules": [], "failures": {}}'"""],
)  # fmt: skip
def test_what_a_python_of_a_stranger_answers_is_one_warning(tmp_path: Path, script: str) -> None:
    (found,) = phases.check_phases(python(tmp_path, script), None, fact_reason)
    assert found.level == "warning"
    assert "could not be asked" in found.what


def test_the_machine_is_named_with_what_it_cannot_have() -> None:
    assert kernel.check_machine("x86_64").level == "ok"
    finding = kernel.check_machine("aarch64")
    assert (finding.level, finding.name) == ("note", "machine")
    assert "--inject" in finding.what
    assert finding.what.startswith("aarch64: recorded on under emulation only")
