"""The cluster, as Ray tells of it: nodes, the processes of jobs, and keepers on nodes.

The only room that imports Ray, and only when it is called: Ray is an extra.
"""

from __future__ import annotations

import itertools
import json
import logging
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.fleet.errors import LostError, PendingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rlscope_trace.fleet.keeper import Keeper

NAMESPACE = "rlscope-trace"
_MOST_ROWS = 10_000
# How Ray calls all of a task, from when a worker took it up: "task::Actor.method".
_WHOLE = "task::"
_CONNECT_S = 5
_INSTALL_HINT = "pip install 'rlscope-trace[ray]'"


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is alive."""

    node_id: str
    address: str
    host: str
    is_head: bool


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the cluster, and its driver."""

    job_id: str
    is_running: bool
    pid: int
    """0: not known."""
    address: str


class Method(NamedTuple):
    """What an async actor ran, on the wall clock of its node (ns)."""

    node_id: str
    pid: int
    task: str
    """Tells it from all others."""
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Known:
    """What the cluster says of the processes of workers, actors and drivers."""

    processes: list[dict[str, Any]]
    """One row for each."""
    methods: list[Method]
    """Of processes whose methods overlap: nothing else tells them apart."""


class RemoteKeeper:
    """A keeper on another node: its methods, called there."""

    def __init__(self, cluster: RayCluster, actor: Any) -> None:  # noqa: ANN401 - Ray's
        self._cluster = cluster
        self._actor = actor

    def call(self, method: str, *arguments: object) -> Callable[[float], Any]:
        """Begin a call; return what waits for its result, so many seconds at most.

        That raises PendingError where it does not answer in time, LostError where it is gone,
        TracerError where what was called did.
        """
        reference = getattr(self._actor, method).remote(*arguments)
        return lambda patience_s: self._cluster.get(reference, patience_s)

    def end(self) -> None:
        """Let the keeper go; the recorder is not its child."""
        self._cluster.kill(self._actor)


class RayCluster:
    """A cluster that we are connected to."""

    def __init__(self, address: str) -> None:
        """Connect. address: as `ray.init` takes it. Raises TracerError."""
        try:
            import ray
        except ImportError as error:
            raise TracerError("fleet record needs Ray", hint=_INSTALL_HINT) from error
        self._ray = ray
        _require_reachable(address)
        try:
            ray.init(
                address=address, namespace=NAMESPACE, log_to_driver=False,
                logging_level=logging.ERROR, configure_logging=False,
            )  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError, AssertionError) as error:
            raise _no_cluster(address, _first_line(error)) from error
        _quieten()
        context = ray.get_runtime_context()
        self.own_job: str = context.get_job_id()
        self.address: str = context.gcs_address
        self._node_id: str = context.get_node_id()

    def is_here(self, node: Node) -> bool:
        """Tell whether a node is the one that this process is connected to."""
        return node.node_id == self._node_id

    def close(self) -> None:
        """Disconnect; keepers end with that."""
        with suppress(Exception):
            self._ray.shutdown()

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive, the head first."""
        found = [
            Node(
                one["NodeID"], one["NodeManagerAddress"], one.get("NodeManagerHostname") or "",
                "node:__internal_head__" in one.get("Resources", {}),
            )
            for one in self._asked(self._ray.nodes, [])
            if one.get("Alive")
        ]  # fmt: skip
        return sorted(found, key=lambda node: (not node.is_head, node.address, node.node_id))

    def keeper(self, node: Node, cls: type[Keeper]) -> RemoteKeeper:
        """Make a keeper on a node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = self._ray.remote(cls).options(
            num_cpus=0,
            max_restarts=0,
            # A call that waits must not keep others from being answered.
            max_concurrency=4,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
        )
        return RemoteKeeper(self, remote.remote())

    def get(self, reference: Any, patience_s: float) -> Any:  # noqa: ANN401 - whatever was called
        """Wait for a result. Raises PendingError, LostError, TracerError."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=patience_s)
        except exceptions.GetTimeoutError as error:
            raise PendingError("no answer in time") from error
        except exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            raise TracerError(_first_line(cause)) from error
        except exceptions.RayError as error:
            raise LostError(_first_line(error)) from error

    def kill(self, actor: Any) -> None:  # noqa: ANN401 - Ray's
        """End an actor."""
        with suppress(Exception):
            self._ray.kill(actor)

    def job_of(self, text: str) -> str:
        """Return the id of a job of the cluster. Raises UsageError where there is none."""
        jobs = {job.job_id for job in self.jobs()}
        if text not in jobs:
            known = ", ".join(sorted(jobs - {self.own_job})) or "none"
            raise UsageError(f"--job {text}: no job of this cluster", hint=f"its jobs: {known}")
        return text

    def jobs(self) -> list[Job]:
        """Return the jobs of the cluster, those that have ended, too."""
        return [
            Job(
                one["JobID"], is_running=not one["IsDead"], pid=int(one.get("DriverPid") or 0),
                address=one.get("DriverIPAddress") or "",
            )
            for one in self._asked(lambda: self._state().job_table(), [])
        ]  # fmt: skip

    def known(self) -> Known:
        """Return what is known of processes.

        By the tables of the cluster's GCS: the newest of what each process did says whose it is.
        Empty where the cluster does not answer.
        """
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        events = self._asked(lambda: self._state()._get_all_task_events(), [])
        for event in events:
            update, of_actor = event.state_updates, event.task_info.actor_id.hex()
            if update.worker_pid and len(rows) < _MOST_ROWS:
                rows[update.node_id.hex(), update.worker_pid] = {
                    "kind": "actor" if of_actor else "worker", "job_id": event.job_id.hex(),
                    "worker_id": update.worker_id.hex(), "actor_id": of_actor or None,
                }  # fmt: skip
        for actor_id, actor in self._asked(lambda: self._state().actor_table(None), {}).items():
            key = (actor["Address"]["NodeID"], int(actor.get("Pid") or 0))
            if key[1] and (key in rows or len(rows) < _MOST_ROWS):
                rows[key] = {
                    **rows.get(key, {}), "kind": "actor", "actor_id": actor_id,
                    "job_id": actor["JobID"], "actor_class": actor["ActorClassName"],
                    "actor_name": actor.get("Name") or None,
                }  # fmt: skip
        for job in self.jobs():
            # Of a driver it is known on which machine it runs, which may have several nodes.
            rows[job.address, job.pid] = {"kind": "driver", "job_id": job.job_id}
        processes = [
            {"node_id": node_id, "pid": pid, **row} for (node_id, pid), row in rows.items()
        ]
        return Known(processes, overlapping_methods(events))

    def _state(self) -> Any:  # noqa: ANN401 - Ray's
        # Not public, but what ray.timeline() is made of. The public one asks the dashboard, which
        # is an extra of Ray's.
        from ray._private.state import state

        return state

    def _asked(self, question: Callable[[], Any], otherwise: Any) -> Any:  # noqa: ANN401
        """Return an answer of the cluster; the other where it gives none: it may come up again."""
        try:
            return question()
        except Exception:  # noqa: BLE001 - Ray raises what its transport does
            return otherwise


def overlapping_methods(events: Iterable[Any]) -> list[Method]:
    """Return the methods of actors that ran more than one at a time, out of Ray's task events."""
    events = list(events)
    methods_of_actors = {event.task_id.hex() for event in events if event.task_info.actor_id}
    workers = {
        update.worker_id: (update.node_id.hex(), update.worker_pid)
        for update in (event.state_updates for event in events)
        if update.worker_pid
    }
    by_process: dict[tuple[str, int], list[Method]] = {}
    for event in events:
        process = workers.get(event.profile_events.component_id)
        if process is None:
            continue
        for part in event.profile_events.events:
            # Where methods overlap Ray puts parts to tasks that they are not of: they say whose
            # they are themselves.
            task = _task_of(part.extra_data) if part.event_name.startswith(_WHOLE) else None
            if task in methods_of_actors:
                name = part.event_name.removeprefix(_WHOLE)
                method = Method(*process, str(task), name, part.start_time, part.end_time)
                by_process.setdefault(process, []).append(method)
    found = []
    for methods in by_process.values():
        methods.sort(key=lambda one: one.start_ns)
        pairs = itertools.pairwise(methods)
        if any(later.start_ns < one.end_ns for one, later in pairs):
            found += methods
    return found


def _task_of(extra: str) -> str | None:
    try:
        task = json.loads(extra)["task_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return task if isinstance(task, str) else None


def _quieten() -> None:
    """Let Ray not print what happens to nodes: what matters of it we say ourselves, in one line."""
    with suppress(Exception):
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None


def _require_reachable(address: str) -> None:
    """Raise TracerError where nobody listens: Ray would try, and say so, for a minute."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(address: str, why: str) -> TracerError:
    return TracerError(
        f"no Ray cluster at {address}: {why}",
        hint=(
            "ray status --address HOST:PORT says whether one runs",
            "RAY_AUTH_MODE=token where a cluster asks for the token of ~/.ray/auth_token",
        ),
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
