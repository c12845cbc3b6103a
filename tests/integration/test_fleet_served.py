"""Programs without any right to record, recorded by the service of their machine."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import WORKLOADS
from recording import COMMAND, USER, assert_conserved, query, rlscope, until
from rl_programs import require_modules
from rlscope_trace.confinement import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root

# A user of no account, who can read where the tests' Python lies, and has no other right.
AS_USER = [
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
]  # fmt: skip
# Records a program of the user for as long as that takes.
ASKS = """
import json, os, subprocess, sys
from rlscope_trace.fleet import recorder, service_link
assert recorder.refusal()[0] is not None
assert service_link.facts()["refusal"] is None
output, *command = sys.argv[1:]
program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert program.stdout.readline().startswith(b"ready")
wanted = recorder.Recording(output, "served-test", 20.0, (program.pid,), ("--no-calibrate",))
served = service_link.start(wanted)
program.communicate(b"\\n")
assert service_link.go_on(served, [program.pid])
rows = [{"pid": program.pid, "kind": "worker", "job_id": "02000000"}]
identity = json.dumps({"node": {"node_id": "n"}, "processes": rows, "hidden_jobs": [],
                       "methods": []})
service_link.end(served, identity, 60.0)
print(program.pid)
"""


def unit(name: str) -> str:
    done = rlscope("fleet", "serve", "--user", str(USER), "--print", name)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Service:
    """`fleet serve` with the rights that its unit gives it, and no other."""

    def __init__(self, folder: Path) -> None:
        (rights,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit("systemd"), re.M)
        bounds = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in rights.split())
        self.socket, self.folder = folder / "run/fleet.sock", folder / "held"
        self.environment = {**os.environ, "RLSCOPE_FLEET_SOCKET": str(self.socket)}
        self.process = subprocess.Popen(
            ["setpriv", f"--bounding-set=-all,{bounds}", *COMMAND, "fleet", "serve",
             "--user", str(USER), "--socket", self.socket, "--folder", self.folder],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("recording for "), line + self.process.stderr.read()

    def close(self) -> str:
        self.process.terminate()
        _, words = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, words
        assert not self.socket.exists()
        return words


@pytest.fixture
def service() -> Iterator[Service]:
    # What pytest makes is closed to others: the socket has to be elsewhere.
    made = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    made.chmod(0o755)
    one = Service(made)
    yield one
    if one.process.poll() is None:
        one.close()
    subprocess.run(["rm", "-r", str(made)], check=True)


@pytest.mark.parametrize("namespace", [[], ["unshare", "--pid", "--fork", "--mount-proc"]])
def test_a_user_without_rights_gets_a_trace_of_its_program(
    service: Service, folder: Path, namespace: list[str]
) -> None:
    """Also from a container, where pids are others."""
    output = folder / "trace.duckdb"
    done = subprocess.run(
        [*namespace, *AS_USER, sys.executable, "-c", ASKS, str(output),
         sys.executable, str(WORKLOADS / "threads.py"), "--threads=2", "--wait"],
        env=service.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    status = output.stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (USER, 0o600)
    assert_conserved(output)
    rows = query(output, "SELECT p.pid, r.job_id FROM ray_process AS r JOIN process AS p"
                         " USING (process_id) WHERE r.kind = 'worker'")  # fmt: skip
    ((pid, job),) = rows
    assert job == "02000000"
    assert (pid == int(done.stdout)) is not bool(namespace)
    (count,) = query(output, "SELECT count(*) FROM thread WHERE name LIKE 'worker%'")
    assert count == (2,)
    until(lambda: list(service.folder.glob("*/*")) == [], what="all is taken")
    assert "is saved and handed over" in service.close()


def test_the_service_keeps_few_rights_and_none_of_its_files_is_anybody_elses(
    service: Service,
) -> None:
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    (permitted,) = re.findall(r"^CapPrm:\s*(\w+)$", status, re.M)
    dangerous = {"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_CHOWN"}
    assert not int(permitted, 16) & sum(1 << CAPABILITIES[name] for name in dangerous)
    assert stat.S_IMODE(service.folder.stat().st_mode) == 0o700
    assert service.folder.stat().st_uid == 0


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "rlscope-fleet.service"
    path.write_text(unit("systemd"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert str(path) not in done.stderr + done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["kuberay", "daemonset"])
def test_containers_get_what_the_unit_of_systemd_gives(name: str) -> None:
    yaml = pytest.importorskip("yaml")
    spec = yaml.safe_load(unit(name))["spec"]
    pod = spec["template"]["spec"] if name == "daemonset" else spec
    (one,) = [one for one in pod["containers"] if one["name"] == "rlscope-trace"]
    assert one["command"] == ["rlscope-trace", "fleet", "serve", "--user", str(USER)]
    (rights,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit("systemd"), re.M)
    given = one["securityContext"]["capabilities"]
    assert given["drop"] == ["ALL"]
    assert sorted(given["add"]) == sorted(right.removeprefix("CAP_") for right in rights.split())
    # Ray's container sees the same socket.
    mounted = {mount["mountPath"] for each in pod["containers"] for mount in each["volumeMounts"]}
    assert "/run/rlscope-trace" in mounted


@pytest.mark.matrix
@pytest.mark.slow
def test_a_cluster_of_a_user_without_rights(service: Service, folder: Path) -> None:
    """Two raylets, and a job launched beside them."""
    require_modules("ray")
    environment = {
        **service.environment, "RAY_AUTH_MODE": "disabled", "HOME": str(folder),
        "RAY_TMPDIR": str(folder / "ray"),
    }  # fmt: skip
    (folder / "ray").mkdir(mode=0o777)
    os.chown(folder / "ray", USER, USER)
    nodes = subprocess.Popen(
        [*AS_USER, sys.executable, str(WORKLOADS / "ray_nodes.py")], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
    assert nodes.stdout is not None
    environment["RAY_ADDRESS"] = nodes.stdout.readline().strip()
    command = [*AS_USER, *COMMAND, "fleet", "launch", "-o", str(folder / "run"),
               "--with=--no-calibrate", "--", sys.executable]  # fmt: skip
    done = subprocess.run(
        [*command, str(WORKLOADS / "ray_actors.py"), "5"], env=environment, cwd=folder, text=True,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    nodes.communicate()
    assert done.returncode == 7, done.stderr
    members = json.loads((folder / "run/manifest.json").read_text())["members"]
    assert len(members) == 2, done.stderr
    counts: dict[str, int] = {}
    for path in (folder / "run").glob("*.duckdb"):
        assert path.stat().st_uid == USER
        found = query(path, "SELECT name, count(*) FROM operation GROUP BY ALL")
        for name, count in found:
            counts[name] = counts.get(name, 0) + count
    assert counts["Player.play"] == 4 * 5
    assert counts["turn"] == 4 * 5 * 10
    assert counts["judge"] == 2 * 5
    until(lambda: list(service.folder.glob("*/*")) == [], what="all is taken")
