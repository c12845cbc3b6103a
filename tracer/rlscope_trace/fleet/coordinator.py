"""Recorders on all nodes of a cluster: started, kept alive, stopped, and what they wrote found."""

from __future__ import annotations

import fnmatch
import json
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rlscope_trace import __version__
from rlscope_trace.errors import Said, TracerError
from rlscope_trace.fleet.clock_link import TOKEN_BYTES
from rlscope_trace.fleet.errors import LostError, PendingError
from rlscope_trace.fleet.keeper import Ended, Keeper, NodeFacts, Order, Started
from rlscope_trace.fleet.ray_cluster import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rlscope_trace.fleet.ray_cluster import Job, Method, Node

LEASE_S = 20.0
"""A recorder that nobody asks after for so long saves by itself."""
_BEAT_S = 2.0
# How long each of several is waited for before the next one is looked at.
_GLANCE_S = 0.1
# The cluster's tables are large where much runs, and asking for them is work of its head. What is
# asked takes less than a twentieth of the time.
_LEARN_S, _LEARN_SHARE = 15.0, 20
_FLUSH_S = 1.5
_CALL_S = 10.0
_START_S = 60.0
_SAVE_S = 900.0
# A burst takes 3 ms of both, and the reference answers all others.
_CLOCK_INTERVAL_S = 2.0
_NODES_PER_INTERVAL = 20
_PENDING, _FAILED = object(), object()
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_LETTERS, _MOST_WORDS = 60, 120
# As many as fit into what a recorder reads, with all processes.
_MOST_METHODS, _MOST_METHODS_OF_ALL = 30_000, 400_000


class KeeperLink(Protocol):
    """A keeper on some node."""

    def call(self, method: str, *arguments: object) -> Callable[[float], Any]:
        """Begin a call; return what waits for its result: PendingError, LostError, TracerError."""
        ...

    def end(self) -> None:
        """Let it go."""
        ...


class Cluster(Protocol):
    """What is asked of a cluster: RayCluster, or one that tests make."""

    own_job: str
    address: str

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive, the head first."""
        ...

    def jobs(self) -> list[Job]:
        """Return the jobs."""
        ...

    def known(self) -> Known:
        """Return what is known of processes."""
        ...

    def keeper(self, node: Node, cls: type[Keeper]) -> KeeperLink:
        """Make a keeper on a node."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be recorded."""

    folder: Path
    """Where the traces are to be, on each node."""
    session: str
    job: str | None = None
    """Whose processes are kept; None: of all jobs."""
    actors: str | None = None
    """A pattern: only nodes with such an actor are recorded."""
    options: tuple[str, ...] = ()
    """More of `rlscope-trace record`'s."""
    driver: tuple[int, str] | None = None
    """The program that was launched here, and the id of this node."""


@dataclass(slots=True)
class Member:
    """A node, its recorder, and what became of it."""

    node: Node
    name: str
    keeper: KeeperLink | None = None
    facts: NodeFacts | None = None
    started: Started | None = None
    ended: Ended | None = None
    problem: str | None = None
    """Why there is no trace, or none that is known."""
    remedy: str | None = None

    @property
    def is_recording(self) -> bool:
        """Whether a recorder runs there, as far as is known."""
        return self.started is not None and self.ended is None and self.problem is None


@dataclass(slots=True)
class Fleet:
    """All members of a recording."""

    cluster: Cluster
    plan: Plan
    say: Callable[[str], None]
    clock_s: Callable[[], float] = time.monotonic
    pause_s: Callable[[float], None] = time.sleep
    members: list[Member] = field(default_factory=list)
    _token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES))
    _clock: tuple[str, int] | None = None
    """Where the reference answers what time it is."""
    _next_beat_s: float = 0.0
    _next_learn_s: float = 0.0
    _next_renewal_s: float = 0.0
    _identity: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    _methods: dict[str, Method] = field(default_factory=dict)

    def open(self) -> None:
        """Start a recorder on each node. Raises TracerError where there is none at all."""
        if not self.members:
            self.examine()
        self._begin_recording(self.members)
        if not any(member.is_recording for member in self.members):
            first = next((one for one in self.members if one.problem), None)
            why = f"{first.name}: {first.problem}" if first is not None else "it has no node"
            raise TracerError(
                f"nothing is recorded on any node of the cluster; {why}",
                hint=(first.remedy if first is not None else None) or "rlscope-trace fleet doctor",
            )

    def examine(self) -> list[Member]:
        """Return all nodes, and what there is to say against recording them; nothing is started."""
        return self._meet(self._wanted(self.cluster.nodes()))

    def tick(self) -> bool:
        """Ask after all recorders, when that is due, and tell whether it was.

        Nodes that joined get one.
        """
        if self.clock_s() < self._next_beat_s:
            return False
        self._next_beat_s = self.clock_s() + _BEAT_S
        self._beat()
        nodes = self.cluster.nodes()
        if nodes:
            self._part({node.node_id for node in nodes})
            known = {member.node.node_id for member in self.members}
            new = [node for node in nodes if node.node_id not in known]
            self._begin_recording(self._meet(self._wanted(new)))
        if self.clock_s() >= self._next_learn_s:
            self._learn()
        return True

    def is_over(self) -> bool:
        """Tell whether nothing is recorded any more, or the job has ended."""
        if not any(member.is_recording for member in self.members):
            return True
        if self.plan.job is None:
            return False
        jobs = [job for job in self.cluster.jobs() if job.job_id == self.plan.job]
        return bool(jobs) and not any(job.is_running for job in jobs)

    def close(self) -> None:
        """Let all recorders save, and take what they left."""
        self._beat()
        self._learn()
        if any(row.get("kind") == "actor" for row in self._identity.values()):
            # Workers tell the cluster once a second what they ran.
            self.pause_s(_FLUSH_S)
            self._learn()
        processes = [
            {"node_id": key[0], "pid": key[1], **row} for key, row in self._identity.items()
        ]
        known = Known(processes, list(self._methods.values()))
        recording = [member for member in self.members if member.is_recording]
        self._collect(recording, known)
        for member in self.members:
            if member.keeper is not None:
                member.keeper.end()

    # Whoever is asked may be gone; all others are asked all the same.

    def _begin_recording(self, members: Sequence[Member]) -> None:
        self._start([member for member in members if member.problem is None])
        self._link_clocks([member for member in members if member.is_recording])

    def _meet(self, nodes: Sequence[Node]) -> list[Member]:
        """Make members of nodes, with a keeper on each that says whether it can record."""
        met = []
        for node in nodes:
            met.append(Member(node, self._name(node), self.cluster.keeper(node, Keeper)))
            self.members.append(met[-1])
        for member, facts in self._ask(met, _START_S, "facts"):
            member.facts = facts
            member.problem, member.remedy = facts.refusal, facts.remedy
            if facts.version != __version__:
                member.problem = f"it has rlscope-trace {facts.version}, this is {__version__}"
                member.remedy = "install the same version on all nodes"
        return met

    def _wanted(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes with such an actor as is asked for; all, where none is."""
        pattern = self.plan.actors
        if pattern is None or not nodes:
            return list(nodes)
        with_actor = {
            row["node_id"]
            for row in self.cluster.known().processes
            if any(
                fnmatch.fnmatchcase(row.get(name) or "", pattern)
                for name in ("actor_class", "actor_name", "actor_id")
            )
        }
        return [node for node in nodes if node.node_id in with_actor]

    def _name(self, node: Node) -> str:
        """Return what a node is called: its host, if no other one is called so."""
        name = _NAME.sub("-", node.host or node.address).strip(".-")[:_MOST_LETTERS] or "node"
        taken = {member.name for member in self.members}
        return name if name not in taken else f"{name}-{node.node_id[:8]}"

    def _start(self, members: Sequence[Member]) -> None:
        drivers = self._drivers() if members else {}
        waiting = []
        for member in members:
            order = Order(
                output=str(self.plan.folder / f"{member.name}.duckdb"),
                session=self.plan.session,
                lease_s=LEASE_S,
                options=self.plan.options,
                pids=tuple(drivers.get(member.node.node_id, ())),
            )
            waiting.append((member, self._begin(member, "start", order)))
        for member, started in self._results(waiting, _START_S):
            member.started = started

    def _drivers(self) -> dict[str, list[int]]:
        """Return by node the drivers that are there: they are no children of its raylet."""
        # Of several nodes of one machine the first one has them.
        nodes = {one.node.address: one.node.node_id for one in reversed(self.members)}
        found: dict[str, list[int]] = {}
        if self.plan.driver is not None:
            pid, node_id = self.plan.driver
            found[node_id] = [pid]
        for job in self.cluster.jobs():
            is_wanted = self.plan.job in (None, job.job_id) and job.job_id != self.cluster.own_job
            if is_wanted and job.is_running and job.pid and job.address in nodes:
                found.setdefault(nodes[job.address], []).append(job.pid)
        return found

    def _link_clocks(self, members: Sequence[Member]) -> None:
        """Let members ask the reference for the time; the first one is that."""
        asking = list(members)
        if self._clock is None and asking:
            reference = asking.pop(0)
            host = reference.node.address
            for _, address in self._ask([reference], _CALL_S, "serve_clock", host, self._token):
                self._clock = tuple(address)
        if self._clock is not None:
            interval_s = _CLOCK_INTERVAL_S * max(len(self.members) / _NODES_PER_INTERVAL, 1)
            list(self._ask(asking, _CALL_S, "ask_clock", self._clock, self._token, interval_s))

    def _beat(self) -> None:
        recording = [member for member in self.members if member.is_recording]
        stopped = []
        drivers = self._drivers()
        waiting = [
            (one, self._begin(one, "beat", one.started, drivers.get(one.node.node_id, ())))
            for one in recording
        ]
        for member, is_running in self._results(waiting, _CALL_S):
            if not is_running:
                stopped.append(member)
        if stopped:
            self._collect(stopped, None)
            for member in stopped:
                self._tell_end(member)
        for member in recording:
            if member.problem is not None and member.ended is None:
                self._take_over(member)

    def _tell_end(self, member: Member) -> None:
        ended = member.ended
        if ended is not None and ended.was_recovered:
            self.say(f"{member.name}: the recorder was killed; what it had recorded is saved")
        elif ended is not None:
            self.say(f"{member.name}: the recorder has ended")

    def _take_over(self, member: Member) -> None:
        """Make another keeper where one is gone but its node is not."""
        alive = {node.node_id for node in self.cluster.nodes()}
        if member.node.node_id not in alive:
            self.say(f"{member.name}: {member.problem}")
            return
        # It hears of the recorder when it is asked after that, the next time.
        member.problem = None
        member.keeper = self.cluster.keeper(member.node, Keeper)

    def _part(self, alive: set[str]) -> None:
        for member in self.members:
            if member.is_recording and member.node.node_id not in alive:
                member.problem = "the node is gone"
                self.say(f"{member.name}: {member.problem}; its recorder saves by itself")

    def _learn(self) -> None:
        """Remember whose the processes are: the cluster forgets those that have ended."""
        began_s = self.clock_s()
        found = self.cluster.known()
        for row in found.processes:
            key = row["node_id"], row["pid"]
            rest = {name: value for name, value in row.items() if name not in ("node_id", "pid")}
            known = {name: value for name, value in rest.items() if value is not None}
            self._identity[key] = {**self._identity.get(key, {}), **known}
        self._methods |= {method.task: method for method in found.methods}
        for task in list(self._methods)[: max(len(self._methods) - _MOST_METHODS_OF_ALL, 0)]:
            del self._methods[task]
        took_s = self.clock_s() - began_s
        self._next_learn_s = self.clock_s() + max(_LEARN_S, _LEARN_SHARE * took_s)

    def _collect(self, members: Sequence[Member], known: Known | None) -> None:
        waiting = []
        for member in members:
            text = None if known is None else identity_of(known, member.node, self.cluster)
            waiting.append((member, self._begin(member, "stop", member.started, text, _SAVE_S)))
        for member, ended in self._results(waiting, _SAVE_S + _CALL_S):
            member.ended = ended
            if not ended.has_trace:
                member.problem = _last_line(ended.words) or "no trace was written"

    def _ask(
        self, members: Sequence[Member], patience_s: float, method: str, *arguments: object
    ) -> Iterator[tuple[Member, Any]]:
        waiting = [(member, self._begin(member, method, *arguments)) for member in members]
        yield from self._results(waiting, patience_s)

    def _begin(
        self, member: Member, method: str, *arguments: object
    ) -> Callable[[float], Any] | None:
        try:
            return None if member.keeper is None else member.keeper.call(method, *arguments)
        except Exception as error:  # noqa: BLE001 - Ray's, whatever happened there
            member.problem = str(error).partition("\n")[0] or type(error).__name__
            return None

    def _results(
        self, waiting: Sequence[tuple[Member, Callable[[float], Any] | None]], patience_s: float
    ) -> Iterator[tuple[Member, Any]]:
        """Yield each answer when it is there; who does not answer, or says why not, gets a problem.

        Whoever records meanwhile is not forgotten.
        """
        end_s = self.clock_s() + patience_s
        open_calls = [(member, wait) for member, wait in waiting if wait is not None]
        while open_calls:
            left_s = max(end_s - self.clock_s(), 0.0)
            each_s = min(max(left_s, _GLANCE_S), _BEAT_S if len(open_calls) == 1 else _GLANCE_S)
            later = []
            for member, wait in open_calls:
                answer = self._answer(member, wait, each_s)
                if answer is _PENDING and left_s:
                    later.append((member, wait))
                elif answer is _PENDING:
                    member.problem = f"no answer for {patience_s:.0f} s"
                elif answer is not _FAILED:
                    yield member, answer
            open_calls = later
            if later:
                self._renew()

    def _answer(self, member: Member, wait: Callable[[float], Any], patience_s: float) -> object:
        """Return an answer; what says that there is none yet, or none at all and why is noted."""
        try:
            return wait(patience_s)
        except PendingError:
            return _PENDING
        except LostError as error:
            member.problem, member.remedy = _why_lost(str(error))
        except TracerError as error:
            member.problem, member.remedy = str(error), next(iter(error.hints), None)
        return _FAILED

    def _renew(self) -> None:
        """Let all recorders go on, without waiting for an answer, if it is time for that."""
        if self.clock_s() < self._next_renewal_s:
            return
        self._next_renewal_s = self.clock_s() + _BEAT_S
        for member in self.members:
            if member.is_recording:
                self._begin(member, "beat", member.started)


def _why_lost(said: str) -> tuple[str, str | None]:
    """Return what a lost keeper means, and what helps."""
    if "No module named 'rlscope_trace'" in said:
        return "rlscope-trace is not installed there", "pip install rlscope-trace, on each node"
    return f"it does not answer: {said[:_MOST_WORDS]}", None


def identity_of(known: Known, node: Node, cluster: Cluster) -> str:
    """Return what a recorder gets to know of the processes of its node, as JSON."""
    facts = {
        "node_id": node.node_id, "address": node.address, "host": node.host,
        "is_head": node.is_head, "cluster": cluster.address,
    }  # fmt: skip
    # Drivers are known by the address of their machine.
    of_node = [row for row in known.processes if row["node_id"] in (node.node_id, node.address)]
    methods = [
        (one.pid, one.name, one.start_ns, one.end_ns)
        for one in known.methods
        if one.node_id == node.node_id
    ]
    # What keeps the recorders is no part of what is recorded.
    return json.dumps(
        {
            "node": facts, "processes": of_node, "hidden_jobs": [cluster.own_job],
            "methods": methods[-_MOST_METHODS:],
        }
    )  # fmt: skip


def _last_line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    return (Said.of(words).errors or lines or [""])[-1]
