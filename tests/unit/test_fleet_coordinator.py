"""Recorders on the nodes of a made cluster: whoever is lost is named, all others save."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rlscope_trace import __version__
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet import recorder
from rlscope_trace.fleet.coordinator import Fleet, Member, Plan
from rlscope_trace.fleet.errors import LostError, PendingError
from rlscope_trace.fleet.keeper import Ended, Keeper, NodeFacts, Order, Started
from rlscope_trace.fleet.manifest import keep_partials, manifest_of, write_manifest
from rlscope_trace.fleet.ray_cluster import Job, Known, Method, Node, overlapping_methods

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OWN_JOB = "09000000"


@dataclass
class FakeKeeper:
    """A keeper that runs here, and remembers what it was asked."""

    cluster: FakeCluster
    node: Node
    facts: NodeFacts
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    is_gone: bool = False
    runs: bool = True
    has_trace: bool = True

    def call(self, method: str, *arguments: object) -> Callable[[float], Any]:
        self.calls.append((method, *arguments))
        end_s = self.cluster.ends_s(self.node) if method == "start" else 0.0

        def wait(patience_s: float) -> object:
            if self.cluster.passes(patience_s, end_s):
                return self.answer(method, *arguments)
            raise PendingError("no answer in time")

        return wait

    def answer(self, method: str, *arguments: Any) -> object:  # noqa: ANN401
        if self.is_gone:
            raise LostError("the actor died")
        if method == "facts":
            return self.facts
        if method == "start":
            order: Order = arguments[0]
            return Started(recorder.Started(100, "5", "/tmp/x", order.output, order.lease_s))
        if method == "beat":
            return self.runs
        if method == "stop":
            self.runs = False
            return Ended(
                "x.duckdb", self.has_trace, not self.has_trace, "error: no room on the disk", b"P",
                "mark", [(1, 2), (3, 4)], 9, [(5, 6, 7)],
            )  # fmt: skip
        if method == "serve_clock":
            return (arguments[0], 4242)
        return None

    def asked(self, method: str) -> list[tuple[Any, ...]]:
        return [arguments for name, *arguments in self.calls if name == method]  # type: ignore[misc]

    def end(self) -> None:
        self.calls.append(("end",))


@dataclass
class FakeCluster:
    """A cluster that changes as tests say."""

    alive: list[Node]
    own_job: str = OWN_JOB
    address: str = "10.0.0.1:6379"
    running: list[Job] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    methods: list[Method] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    """How many seconds the start of a recorder takes."""
    clock: Clock | None = None
    keepers: list[FakeKeeper] = field(default_factory=list)

    def ends_s(self, node: Node) -> float:
        return self.slow.get(node.node_id, 0.0) + (self.clock.now_s if self.clock else 0.0)

    def passes(self, patience_s: float, end_s: float) -> bool:
        """Let time go by until an answer is there, or the patience is over."""
        if self.clock is None or self.clock.now_s >= end_s:
            return True
        self.clock.now_s = min(self.clock.now_s + patience_s, end_s)
        return self.clock.now_s >= end_s

    def nodes(self) -> list[Node]:
        return list(self.alive)

    def jobs(self) -> list[Job]:
        return list(self.running)

    def known(self) -> Known:
        return Known([dict(row) for row in self.rows], list(self.methods))

    def keeper(self, node: Node, cls: type[Keeper]) -> FakeKeeper:
        assert cls is Keeper
        why = self.refusals.get(node.node_id)
        version = self.versions.get(node.node_id, __version__)
        facts = NodeFacts(node.host, version, "3.11", 70, why, None if why is None else "be root")
        self.keepers.append(FakeKeeper(self, node, facts))
        return self.keepers[-1]


def node(number: int, host: str = "") -> Node:
    return Node(f"n{number}", f"10.0.0.{number}", host or f"box{number}", number == 1)


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster([node(1), node(2)])


def fleet_of(cluster: FakeCluster, folder: Path, **plan: Any) -> tuple[Fleet, list[str], Clock]:  # noqa: ANN401
    said: list[str] = []
    clock = Clock()
    fleet = Fleet(cluster, Plan(folder, "run-01234567", **plan), said.append, clock, clock.pause)
    return fleet, said, clock


def later(fleet: Fleet, clock: Clock) -> None:
    clock.now_s += 100
    fleet.tick()


def names(members: list[Member]) -> list[str]:
    return [member.name for member in members]


def test_each_node_is_recorded_into_a_file_of_its_own(cluster: FakeCluster, tmp_path: Path) -> None:
    fleet, _, _ = fleet_of(cluster, tmp_path, options=("--sample-hz", "0"))
    fleet.open()
    orders = [keeper.asked("start")[0][0] for keeper in cluster.keepers]
    assert [order.output for order in orders] == [
        str(tmp_path / "box1.duckdb"), str(tmp_path / "box2.duckdb"),
    ]  # fmt: skip
    assert {order.options for order in orders} == {("--sample-hz", "0")}
    # One clock: the second asks the first.
    assert len(cluster.keepers[0].asked("serve_clock")) == 1
    assert cluster.keepers[1].asked("ask_clock")[0][0] == ("10.0.0.1", 4242)
    assert cluster.keepers[0].asked("ask_clock") == []


def test_nodes_of_one_name_have_two(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.alive = [node(1, "box"), node(2, "box"), node(3, "../../etc")]
    fleet, _, _ = fleet_of(cluster, tmp_path)
    fleet.open()
    assert names(fleet.members) == ["box", "box-n2", "etc"]


def test_a_node_that_cannot_be_recorded_is_named(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.refusals = {"n2": "CAP_BPF is missing"}
    fleet, _, _ = fleet_of(cluster, tmp_path)
    fleet.open()
    fleet.close()
    lost = manifest_of(fleet.members, fleet.plan)["lost"]
    assert [(one["node"], one["why"]) for one in lost] == [("box2", "CAP_BPF is missing")]
    assert cluster.keepers[1].asked("start") == []


def test_a_node_with_another_version_is_not_recorded(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.versions = {"n2": "0.0.1"}
    fleet, _, _ = fleet_of(cluster, tmp_path)
    fleet.open()
    assert fleet.members[1].problem == f"it has rlscope-trace 0.0.1, this is {__version__}"
    assert cluster.keepers[1].asked("start") == []


def test_the_cluster_is_asked_less_where_that_takes_long(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _, clock = fleet_of(cluster, tmp_path)
    asked = []

    def slowly() -> Known:
        asked.append(clock.now_s)
        clock.now_s += 10
        return Known([], [])

    monkeypatch.setattr(cluster, "known", slowly)
    fleet.open()
    for _ in range(30):
        clock.now_s += 10
        fleet.tick()
    assert len(asked) == 2
    assert asked[1] - asked[0] >= 200


@pytest.mark.parametrize(("slow", "quick"), [("n2", 0), ("n1", 1)])
def test_who_records_is_not_forgotten_while_another_takes_long(
    cluster: FakeCluster, tmp_path: Path, slow: str, quick: int
) -> None:
    """Its lease lasts 20 s; the start of another recorder may take a minute."""
    fleet, _, clock = fleet_of(cluster, tmp_path)
    cluster.slow = {slow: 50.0}
    cluster.clock = clock
    fleet.open()
    assert [one.is_recording for one in fleet.members] == [True, True]
    assert len(cluster.keepers[quick].asked("beat")) >= 20
    assert clock.now_s < 60


def test_the_cluster_is_asked_only_when_that_is_due(cluster: FakeCluster, tmp_path: Path) -> None:
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    assert fleet.tick()
    asked = len(cluster.keepers[0].asked("beat"))
    assert not fleet.tick()
    assert len(cluster.keepers[0].asked("beat")) == asked
    clock.now_s += 2
    assert fleet.tick()


def test_where_no_node_can_be_recorded_that_is_an_error(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.refusals = {"n1": "CAP_BPF is missing", "n2": "CAP_BPF is missing"}
    fleet, _, _ = fleet_of(cluster, tmp_path)
    with pytest.raises(TracerError, match="box1: CAP_BPF is missing") as raised:
        fleet.open()
    assert raised.value.hints == ("be root",)


def test_a_node_that_joins_is_recorded_from_then_on(cluster: FakeCluster, tmp_path: Path) -> None:
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    cluster.alive.append(node(3))
    later(fleet, clock)
    assert names(fleet.members) == ["box1", "box2", "box3"]
    assert len(cluster.keepers[2].asked("start")) == 1
    assert len(cluster.keepers[2].asked("ask_clock")) == 1


def test_the_lease_is_renewed_and_drivers_that_come_later_are_named(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    cluster.running = [
        Job("01000000", True, 500, "10.0.0.2"), Job("02000000", False, 501, "10.0.0.2"),
        Job(OWN_JOB, True, 502, "10.0.0.2"), Job("03000000", True, 503, "10.0.0.9"),
    ]  # fmt: skip
    later(fleet, clock)
    assert [list(pids) for _, pids in cluster.keepers[1].asked("beat")] == [[500]]
    assert [list(pids) for _, pids in cluster.keepers[0].asked("beat")] == [[]]


def test_a_keeper_that_was_killed_is_replaced(cluster: FakeCluster, tmp_path: Path) -> None:
    """The recorder runs on."""
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    started = fleet.members[1].started
    cluster.keepers[1].is_gone = True
    later(fleet, clock)
    later(fleet, clock)
    assert [asked[0] for asked in cluster.keepers[2].asked("beat")] == [started]
    fleet.close()
    assert cluster.keepers[2].asked("stop")[0][0] == started
    assert fleet.members[1].ended is not None
    assert manifest_of(fleet.members, fleet.plan)["lost"] == []


def test_a_node_that_is_gone_costs_no_other(cluster: FakeCluster, tmp_path: Path) -> None:
    fleet, said, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    cluster.keepers[1].is_gone = True
    cluster.alive = cluster.alive[:1]
    later(fleet, clock)
    assert not fleet.is_over()
    fleet.close()
    manifest = manifest_of(fleet.members, fleet.plan)
    assert [one["node"] for one in manifest["members"]] == ["box1"]
    assert [one["node"] for one in manifest["lost"]] == ["box2"]
    assert any("box2" in words for words in said)


def test_what_a_killed_recorder_left_is_taken_at_once(cluster: FakeCluster, tmp_path: Path) -> None:
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    cluster.keepers[0].runs = False
    later(fleet, clock)
    assert fleet.members[0].ended is not None
    assert len(cluster.keepers[0].asked("stop")) == 1
    fleet.close()
    assert len(cluster.keepers[0].asked("stop")) == 1


def test_a_trace_that_was_not_written_has_its_reason(cluster: FakeCluster, tmp_path: Path) -> None:
    fleet, _, _ = fleet_of(cluster, tmp_path)
    fleet.open()
    cluster.keepers[1].has_trace = False
    fleet.close()
    lost = manifest_of(fleet.members, fleet.plan)["lost"]
    assert [(one["node"], one["why"]) for one in lost] == [("box2", "no room on the disk")]


def test_a_recording_of_a_job_ends_with_it(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.running = [Job("01000000", True, 500, "10.0.0.1")]
    fleet, _, clock = fleet_of(cluster, tmp_path, job="01000000")
    fleet.open()
    later(fleet, clock)
    assert not fleet.is_over()
    cluster.running = [Job("01000000", False, 500, "10.0.0.1")]
    assert fleet.is_over()


def test_only_nodes_with_such_an_actor(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.rows = [
        {"node_id": "n2", "pid": 7, "kind": "actor", "actor_class": "Learner"},
        {"node_id": "n1", "pid": 8, "kind": "worker"},
    ]
    fleet, _, _ = fleet_of(cluster, tmp_path, actors="Learn*")
    fleet.open()
    assert names(fleet.members) == ["box2"]


def test_recorders_learn_whose_the_processes_of_their_node_are(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Also of those that the cluster has forgotten by then."""
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    cluster.rows = [{"node_id": "n1", "pid": 7, "kind": "actor", "actor_class": "A"}]
    later(fleet, clock)
    cluster.rows = [
        {"node_id": "n1", "pid": 7, "kind": "actor", "actor_class": None, "job_id": "01000000"},
        {"node_id": "n2", "pid": 7, "kind": "worker"},
    ]
    fleet.close()
    text = cluster.keepers[0].asked("stop")[0][1]
    told = json.loads(text)
    assert told["node"]["node_id"] == "n1"
    assert told["hidden_jobs"] == [OWN_JOB]
    assert told["processes"] == [
        {"node_id": "n1", "pid": 7, "kind": "actor", "actor_class": "A", "job_id": "01000000"}
    ]


def test_recorders_learn_what_async_actors_of_their_node_ran(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Once each, also what the cluster has forgotten by then."""
    fleet, _, clock = fleet_of(cluster, tmp_path)
    fleet.open()
    first, second, elsewhere = (
        Method(node_id, 7, task, "A.run", 10, 20)
        for node_id, task in (("n1", "t1"), ("n1", "t2"), ("n2", "t3"))
    )
    cluster.methods = [first, elsewhere]
    later(fleet, clock)
    cluster.methods = [second, elsewhere]
    fleet.close()
    told = json.loads(cluster.keepers[0].asked("stop")[0][1])
    assert told["methods"] == [[7, "A.run", 10, 20]] * 2


def task_event(
    task: str, *parts: tuple[str, str, int, int], pid: int = 1, actor: bytes = b"a"
) -> object:
    """Make an event as Ray does: parts by name, the task that they are of, start and end."""
    return SimpleNamespace(
        task_id=bytes.fromhex(task),
        state_updates=SimpleNamespace(worker_pid=pid, node_id=b"n", worker_id=b"w%d" % pid),
        task_info=SimpleNamespace(actor_id=actor, name="A.run"),
        profile_events=SimpleNamespace(
            component_id=b"w%d" % pid,
            events=[
                SimpleNamespace(
                    event_name=name, start_time=start, end_time=end,
                    extra_data=json.dumps({"task_id": of}) if of else "{}",
                )
                for name, of, start, end in parts
            ],
        ),
    )  # fmt: skip


def test_methods_that_overlap_are_those_of_async_actors() -> None:
    """Also where Ray has put a part to another task than it is of."""
    run = "task::A.run"
    events = [
        task_event("bb", ("task:execute", "", 16, 29)),
        task_event(
            "aa", (run, "aa", 10, 20), ("task::A.see", "bb", 15, 30), ("task::x", "", 1, 99)
        ),
        # One after the other; tasks of no actor; of a worker that is not known yet.
        task_event("c0", (run, "c0", 10, 20), pid=2),
        task_event("c1", (run, "c1", 20, 30), pid=2),
        task_event("d0", (run, "d0", 10, 20), (run, "d1", 12, 20), pid=3, actor=b""),
        task_event("d1", pid=3, actor=b""),
        task_event("e0", (run, "e0", 10, 20), (run, "aa", 12, 20), pid=0),
    ]
    assert overlapping_methods(events) == [
        Method("6e", 1, "aa", "A.run", 10, 20), Method("6e", 1, "bb", "A.see", 15, 30),
    ]  # fmt: skip


def test_the_manifest_names_what_lies_elsewhere(cluster: FakeCluster, tmp_path: Path) -> None:
    """The traces stay on their nodes; what is kept here is the answer about each."""
    fleet, _, _ = fleet_of(cluster, tmp_path)
    fleet.open()
    fleet.close()
    assert keep_partials(tmp_path, fleet.members) == 2
    write_manifest(tmp_path, manifest_of(fleet.members, fleet.plan))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    first, second = manifest["members"]
    assert first["clock"] == {"is_reference": True}
    assert second["clock"] == {
        "pairs": [[1, 2], [3, 4]], "knots": [[5, 6, 7]], "reference_pairs": [[1, 2], [3, 4]],
        "pair_bound_ns": 9,
    }  # fmt: skip
    assert second["partial_mark"] == "mark"
    assert (tmp_path / "box2.duckdb.partial.parquet").read_bytes() == b"P"
