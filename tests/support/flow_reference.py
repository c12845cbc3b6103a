"""What docs/flow.md says of edges, in plain Python over the tables: slow, for small traces."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

Row = dict[str, Any]
_COLUMNS = (
    "kind", "from_kind", "from_process_id", "from_thread_id", "from_device_id", "from_stream_id",
    "from_ns", "to_process_id", "to_thread_id", "to_device_id", "to_stream_id", "to_ns", "wait",
    "correlation_id", "is_assumed",
)  # fmt: skip
_NOT_THERE = {kind: kind for kind in ("interrupt", "outside", "timer", "device")}


def edge(**known: Any) -> tuple[Any, ...]:  # noqa: ANN401 - whatever the columns hold
    """Return an edge: what is not given is NULL."""
    assert known.keys() <= set(_COLUMNS)
    return tuple({"is_assumed": False, **known}.get(column) for column in _COLUMNS)


def stored_edges(connection: duckdb.DuckDBPyConnection) -> Counter[tuple[Any, ...]]:
    return Counter(connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM flow").fetchall())


class Reference:
    """Reads small traces: every edge is looked for in every row."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._threads = {row["thread_id"]: row for row in self._rows("thread")}
        self._processes = {row["process_id"]: row for row in self._rows("process")}
        self._states = self._rows("thread_state_coded")
        self._waits = {(row["thread_id"], row["end_ns"]): row for row in self._rows("wait_coded")}
        names = {row["string_id"]: row["value"] for row in self._rows("string")}
        self._calls = [
            {**row, "name": names[row["name_id"]], "process_id": self._process_of(row["thread_id"])}
            for row in self._rows("cuda_call_coded")
        ]
        self._all_activities = self._rows("gpu_activity_coded")
        self._activities = [row for row in self._all_activities if row["kind"] != "sync"]

    def edges(self) -> Counter[tuple[Any, ...]]:
        return Counter([
            *self._wakeups(), *self._messages(), *self._launches(), *self._streams(),
            *self._events(), *self._syncs(), *self._collectives(),
        ])  # fmt: skip

    def _rows(self, table: str) -> list[Row]:
        found = self._connection.execute(f"FROM {table}")
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def _process_of(self, thread_id: int) -> int | None:
        process_id: int | None = self._threads[thread_id]["process_id"]
        return process_id

    def _lived(self, thread_id: int, at_ns: int) -> bool:
        thread = self._threads.get(thread_id)
        return thread is not None and thread["start_ns"] <= at_ns <= thread["end_ns"]

    def _wakeups(self) -> Iterator[tuple[Any, ...]]:
        for state in self._states:
            if state["state"] != "runnable" or state["waker_kind"] is None:
                continue
            at_ns, waker = state["start_ns"], state["waker_thread_id"]
            thread, process = state["thread_id"], self._process_of(state["thread_id"])
            wait = self._waits.get((thread, at_ns))
            known = {
                "wait": wait["kind"] if wait else None, "from_ns": at_ns, "to_ns": at_ns,
                "to_process_id": process, "to_thread_id": thread,
            }  # fmt: skip
            if not self._lived(waker, at_ns):
                yield edge(
                    kind="wakeup", from_kind=_NOT_THERE.get(state["waker_kind"], "unknown"), **known
                )
                continue
            yield edge(
                kind=self._kind(state, known["wait"], self._process_of(waker), process),
                from_kind="thread", from_thread_id=waker,
                from_process_id=self._process_of(waker), **known,
            )  # fmt: skip

    def _messages(self) -> Iterator[tuple[Any, ...]]:
        for row in self._rows("early_message"):
            sender, reader = row["sender_thread_id"], row["thread_id"]
            sent_ns, read_ns = row["sent_ns"], row["read_ns"]
            if sent_ns <= read_ns and self._lived(sender, sent_ns) and self._lived(reader, read_ns):
                yield edge(
                    kind="message", from_kind="thread", from_thread_id=sender, from_ns=sent_ns,
                    from_process_id=self._process_of(sender), to_thread_id=reader, to_ns=read_ns,
                    to_process_id=self._process_of(reader),
                )  # fmt: skip

    def _kind(self, state: Row, wait: str | None, waker: int | None, process: int | None) -> str:
        at_ns, thread_id = state["start_ns"], state["thread_id"]
        if at_ns == self._threads[thread_id]["start_ns"]:
            return "fork"
        if wait in ("pipe", "socket"):
            return "message"
        if wait == "gil" and waker == process:
            return "gil"
        slept = any(
            row["thread_id"] == thread_id and row["end_ns"] == at_ns and row["state"] == "sleeping"
            for row in self._states
        )
        if wait == "process" and slept and self._processes[waker]["parent_process_id"] == process:
            return "exit"
        return "wakeup"

    def _launches(self) -> Iterator[tuple[Any, ...]]:
        for to in self._activities:
            calls = [
                call for call in self._calls
                if call["correlation_id"] is not None
                and self._key(call) == self._key(to)
            ]  # fmt: skip
            if not calls:
                continue
            call = min(
                calls,
                key=lambda row: (row["start_ns"], -row["end_ns"], row["thread_id"], row["name_id"]),
            )
            from_ns = min(call["end_ns"], to["start_ns"])
            if self._lived(call["thread_id"], from_ns):
                yield edge(
                    kind="launch", from_kind="thread", from_process_id=to["process_id"],
                    from_thread_id=call["thread_id"], from_ns=from_ns, **_end_on(to, "to"),
                    to_ns=to["start_ns"], correlation_id=to["correlation_id"],
                )  # fmt: skip

    def _streams(self) -> Iterator[tuple[Any, ...]]:
        by_stream: dict[tuple[Any, ...], list[Row]] = {}
        for row in self._activities:
            if row["stream_id"] is not None:
                stream = (row["process_id"], row["device_id"], row["stream_id"])
                by_stream.setdefault(stream, []).append(row)
        for rows in by_stream.values():
            rows.sort(key=lambda row: (row["start_ns"], row["end_ns"], _last(row)))
            for place, row in enumerate(rows[1:], start=1):
                before_ns = max(before["end_ns"] for before in rows[:place])
                if before_ns <= row["start_ns"]:
                    yield edge(
                        kind="stream", from_kind="gpu", **_end_on(row, "from"), from_ns=before_ns,
                        **_end_on(row, "to"), to_ns=row["start_ns"],
                        correlation_id=row["correlation_id"],
                    )  # fmt: skip

    def _call_of(self, process_id: int, correlation_id: int | None) -> Row | None:
        """Return the outermost call with a correlation id."""
        key = (process_id, correlation_id)
        calls = [call for call in self._calls if correlation_id and self._key(call) == key]
        return min(
            calls,
            key=lambda row: (row["start_ns"], -row["end_ns"], row["thread_id"], row["name_id"]),
            default=None,
        )

    def _given_to(self, wait: Row, stream_id: int | None) -> dict[int, list[Row]]:
        """Return what a stream was given, by when the call for it began."""
        given: dict[int, list[Row]] = {}
        for row in self._activities:
            place = (row["process_id"], row["device_id"], row["stream_id"])
            call = self._call_of(row["process_id"], row["correlation_id"])
            wanted = (wait["process_id"], wait["device_id"], stream_id)
            if call and None not in place and place == wanted:
                given.setdefault(call["start_ns"], []).append(row)
        return given

    def _awaited_events(self) -> Iterator[tuple[Row, list[Row]]]:
        """Yield each wait for an event, and what the event stood for."""
        for wait in self._rows("gpu_event_wait"):
            recorded = self._call_of(wait["process_id"], wait["event_correlation_id"])
            given = self._given_to(wait, wait["event_stream_id"])
            before = [ns for ns in given if recorded and ns <= recorded["start_ns"]]
            if before and wait["correlation_id"] is not None:
                yield wait, given[max(before)]

    def _events(self) -> Iterator[tuple[Any, ...]]:
        found = set()
        for wait, event in self._awaited_events():
            waits = self._call_of(wait["process_id"], wait["correlation_id"])
            if wait["stream_id"] in (None, wait["event_stream_id"]) or not waits:
                continue
            given = self._given_to(wait, wait["stream_id"])
            after = [ns for ns in given if ns >= waits["start_ns"]]
            if not after:
                continue
            to = given[min(after)]
            from_ns = max(row["end_ns"] for row in event)
            to_ns = min(row["start_ns"] for row in to)
            if from_ns <= to_ns:
                found.add(
                    edge(
                        kind="event", from_kind="gpu", **_end_on(event[0], "from"),
                        from_ns=from_ns, **_end_on(to[0], "to"), to_ns=to_ns,
                        correlation_id=max(row["correlation_id"] for row in to),
                    )
                )  # fmt: skip
        yield from found

    def _collectives(self) -> Iterator[tuple[Any, ...]]:
        parts = self._rows("gpu_collective_coded")
        for number in {part["collective_id"] for part in parts}:
            together = [part for part in parts if part["collective_id"] == number]
            last = max(together, key=lambda part: (part["start_ns"], part["process_id"]))
            for part in together:
                others = part["process_id"] != last["process_id"]
                if others and last["start_ns"] <= part["end_ns"]:
                    yield edge(
                        kind="collective", from_kind="gpu", **_end_on(last, "from"),
                        from_ns=last["start_ns"], **_end_on(part, "to"), to_ns=part["end_ns"],
                        correlation_id=part["correlation_id"],
                    )  # fmt: skip

    def _syncs(self) -> Iterator[tuple[Any, ...]]:
        waiting = [
            call for call in self._calls
            if call["kind"] in ("memcpy", "sync") and self._lived(call["thread_id"], call["end_ns"])
        ]  # fmt: skip
        waiting.sort(
            key=lambda row: (
                row["start_ns"], -row["end_ns"], -CUDA_CALL_KINDS.index(row["kind"]), _last(row),
                row["name_id"],
            )
        )  # fmt: skip
        for place, call in enumerate(waiting):
            if any(
                outer["thread_id"] == call["thread_id"] and outer["end_ns"] >= call["end_ns"]
                for outer in waiting[:place]
            ):
                continue
            candidates, is_assumed = self._awaited(call)
            ended = [row for row in candidates if row["end_ns"] <= call["end_ns"]]
            if not ended:
                continue
            from_ns = max(row["end_ns"] for row in ended)
            last = [row for row in ended if row["end_ns"] == from_ns]
            if from_ns > call["start_ns"]:
                yield self._sync(call, last, is_assumed=is_assumed)

    def _awaited(self, call: Row) -> tuple[list[Row], bool]:
        """Return what the call may have waited for, and whether that is a guess."""
        if call["kind"] != "sync":
            own = [row for row in self._activities if self._key(row) == self._key(call)]
            last_ns = max((row["end_ns"] for row in own), default=None)
            is_blocking = call["correlation_id"] is not None
            return (own if is_blocking and last_ns and last_ns <= call["end_ns"] else [], False)
        records = [
            row for row in self._all_activities
            if row["kind"] == "sync" and call["correlation_id"] is not None
            and self._key(row) == self._key(call)
        ]  # fmt: skip
        of_process = [row for row in self._activities if row["process_id"] == call["process_id"]]
        streams = [row["stream_id"] for row in records if row["stream_id"] is not None]
        if streams:
            place = (max(row["device_id"] for row in records), max(streams))
            of_stream = [r for r in of_process if (r["device_id"], r["stream_id"]) == place]
            return of_stream, False
        events = [
            max(event, key=lambda row: (row["end_ns"], row["correlation_id"]))
            | {"correlation_id": max(row["correlation_id"] for row in event)}
            for wait, event in self._awaited_events()
            if wait["stream_id"] is None and self._key(wait) == self._key(call)
        ]  # fmt: skip
        if events:
            names = ("end_ns", "device_id", "stream_id", "correlation_id")
            return [max(events, key=lambda row: [row[name] for name in names])], False
        devices = {row["device_id"] for row in of_process}
        return of_process, not (len(devices) == 1 and "Device" in call["name"])

    def _sync(self, call: Row, last: list[Row], *, is_assumed: bool) -> tuple[Any, ...]:
        row = max(last, key=_known_first)
        return edge(
            kind="sync", from_kind="gpu", **_end_on(row, "from"), from_ns=row["end_ns"],
            to_process_id=call["process_id"], to_thread_id=call["thread_id"],
            to_ns=call["end_ns"], correlation_id=row["correlation_id"], is_assumed=is_assumed,
        )  # fmt: skip

    def _key(self, row: Row) -> tuple[Any, ...]:
        return row["process_id"], row["correlation_id"]


def _last(row: Row) -> int:
    """Order rows as DuckDB does: NULL after every number."""
    return 1 << 62 if row["correlation_id"] is None else row["correlation_id"]


def _known_first(row: Row) -> tuple[int, ...]:
    columns = ("correlation_id", "device_id", "stream_id")
    return tuple(-1 if row[column] is None else row[column] for column in columns)


def _end_on(row: Row, end: str) -> Row:
    return {f"{end}_{column}": row[column] for column in ("process_id", "device_id", "stream_id")}
