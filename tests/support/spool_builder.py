"""Builds spools for tests byte by byte, from the comments of bpf/records.h alone.

spool = SpoolBuilder()
spool.thread(1, ts_ns=100, tid=10)
spool.cycle(1, off_ns=100, wake_ns=0, in_ns=110, out_ns=150, off_state=RUNNABLE)
spool.close(1, off_ns=150)
spool.write(tmp_path / "spool", end_ns=200)
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

(
    THREAD, CYCLE, CLOSE, EXEC, NAME, EXIT, CLOCK, CALL, GIL_RELEASE, SAMPLE, STACK, OTHER_RUN,
    QUOTA, MESSAGE, TITLE,
) = range(1, 16)  # fmt: skip
KINDS = TITLE + 1
RUNNABLE, SLEEPING, BLOCKED, DEAD = range(4)
NOBODY, INTERRUPT, OUTSIDE, UNKNOWN, BY_TIMER, BY_DEVICE = 0, -1, -2, -3, -4, -5
CREATED, FOUND = 0, 1
PIPE, SOCKET, DISK, DEVICE, EVENT = range(1, 6)
UNWOUND, OPEN = 1, 2
UNKNOWN_STATUS = -(2**31)
DETACHED_NS = 10**9
BUSY, DISCARDED = 1 << 31, 1 << 30

VERSION = 6
HEADER = struct.pack("<8sII", b"LSSPOOL1", VERSION, 16)


def reason(call: int, *, detail: int = 0, file: int = 0) -> int:
    """Return why a thread sleeps: the number of a system call, and what it waits for."""
    return (call + 1) << 48 | file << 44 | detail


@dataclass
class SpoolBuilder:
    frames: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0] * KINDS)

    def frame(self, record: bytes, *, flags: int = 0) -> None:
        padding = bytes(-len(record) % 8)
        self.frames.append(struct.pack("<II", len(record) | flags, 7) + record + padding)

    def _record(self, kind: int, record: bytes, size: int) -> None:
        assert len(record) == size
        self.counts[kind] += 1
        self.frame(record)

    def thread(
        self,
        thread_id: int,
        *,
        ts_ns: int,
        tid: int,
        tgid: int | None = None,
        entered: int = CREATED,
        ns: tuple[int, int] = (0, 0),
        creator: int = 0,
        parent_tgid: int = 0,
        born_ns: int = 0,
        off_reason: int = 0,
        comm: bytes = b"python",
    ) -> None:
        tgid = tid if tgid is None else tgid
        record = struct.pack(
            "<HBBIQQIIIIIIQ16s",
            THREAD, entered, RUNNABLE, thread_id, ts_ns, born_ns, tid, tgid, *ns,
            creator, parent_tgid, off_reason, comm,
        )  # fmt: skip
        self._record(THREAD, record, 72)

    def cycle(
        self,
        thread_id: int,
        *,
        off_ns: int,
        in_ns: int,
        out_ns: int,
        wake_ns: int = 0,
        off_state: int = SLEEPING,
        out_state: int = SLEEPING,
        waker: int = NOBODY,
        cpu: int = 0,
        flags: int = 0,
        out_reason: int = 0,
    ) -> None:
        record = struct.pack(
            "<HBBIQQQQiHHQ",
            CYCLE, off_state, out_state, thread_id, off_ns, wake_ns, in_ns, out_ns, waker, cpu,
            flags, out_reason,
        )  # fmt: skip
        self._record(CYCLE, record, 56)

    def close(
        self,
        thread_id: int,
        *,
        off_ns: int,
        wake_ns: int = 0,
        in_ns: int = 0,
        off_state: int = SLEEPING,
        waker: int = NOBODY,
        cpu: int = 0,
    ) -> None:
        record = struct.pack(
            "<HBBIQQQiI", CLOSE, off_state, 0, thread_id, off_ns, wake_ns, in_ns, waker, cpu
        )
        self._record(CLOSE, record, 40)

    def exec(
        self,
        thread_id: int,
        *,
        ts_ns: int,
        tid: int = 0,
        old_tid: int | None = None,
        ns_tgid: int = 0,
        filename: bytes = b"/bin/program",
        args: bytes = b"",
        args_total: int | None = None,
    ) -> None:
        record = struct.pack(
            "<HHIQIIII128s512s",
            EXEC, len(args), thread_id, ts_ns, tid, tid if old_tid is None else old_tid, ns_tgid,
            len(args) if args_total is None else args_total, filename, args,
        )  # fmt: skip
        self._record(EXEC, record, 672)

    def name(self, thread_id: int, comm: bytes, *, ts_ns: int = 1) -> None:
        self._record(NAME, struct.pack("<HHIQ16s", NAME, 0, thread_id, ts_ns, comm), 32)

    def exit(
        self, thread_id: int, *, ts_ns: int, status: int = UNKNOWN_STATUS, tgid: int = 0
    ) -> None:
        self._record(EXIT, struct.pack("<HHIQiI", EXIT, 0, thread_id, ts_ns, status, tgid), 24)

    def clock(self, ts_ns: int, realtime_ns: int, boottime_ns: int) -> None:
        self._record(
            CLOCK, struct.pack("<HHIQQQ", CLOCK, 0, 0, ts_ns, realtime_ns, boottime_ns), 32
        )

    def call(
        self,
        thread_id: int,
        *,
        start_ns: int,
        end_ns: int,
        site: int = 1,
        layer: int = 2,
        parent: int = 0,
        depth: int = 0,
        flags: int = 0,
    ) -> None:
        record = struct.pack(
            "<HBBIQQIHH", CALL, layer, parent, thread_id, start_ns, end_ns, site, depth, flags
        )
        self._record(CALL, record, 32)

    def gil_release(self, thread_id: int, *, start_ns: int, end_ns: int) -> None:
        record = struct.pack("<HHIQQ", GIL_RELEASE, 0, thread_id, start_ns, end_ns)
        self._record(GIL_RELEASE, record, 24)

    def other_run(
        self, cpu: int, *, start_ns: int, end_ns: int, pid: int, name: bytes = b"busy"
    ) -> None:
        record = struct.pack("<HHIQQ16s", OTHER_RUN, cpu, pid, start_ns, end_ns, name)
        self._record(OTHER_RUN, record, 40)

    def title(self, thread_id: int, *, ts_ns: int, title: bytes) -> None:
        record = struct.pack("<HHIQ128s", TITLE, len(title), thread_id, ts_ns, title)
        self._record(TITLE, record, 144)

    def quota(self, thread_id: int, *, ts_ns: int) -> None:
        self._record(QUOTA, struct.pack("<HHIQ", QUOTA, 0, thread_id, ts_ns), 16)

    def message(
        self, reader: int, *, sender: int, sent_ns: int, read_ns: int, file: int = SOCKET
    ) -> None:
        record = struct.pack("<HHIQQII", MESSAGE, file, reader, sent_ns, read_ns, sender, 0)
        self._record(MESSAGE, record, 32)

    def sample(
        self, thread_id: int, *, ts_ns: int, layer: int, flags: int = 0, stack: int = 0
    ) -> None:
        record = struct.pack("<HBBIQII", SAMPLE, layer, flags, thread_id, ts_ns, stack, 0)
        self._record(SAMPLE, record, 24)

    def stack(self, stack_id: int, frames: bytes) -> None:
        record = struct.pack("<HHI", STACK, len(frames), stack_id) + frames
        self._record(STACK, record, 8 + len(frames))

    def records(self) -> bytes:
        return HEADER + b"".join(self.frames)

    def progress(
        self,
        *,
        end_ns: int,
        ring_losses: Mapping[tuple[int, int], tuple[int, int]] | None = None,
        spool_losses: Mapping[int, tuple[int, int]] | None = None,
        missed_runs: int = 0,
        failed_updates: int = 0,
        cpus: int = 4,
    ) -> bytes:
        """Losses are {(cpu, kind): (count, first_ns)} and {kind: (count, first_ns)}."""
        spool = [(spool_losses or {}).get(kind, (0, 0)) for kind in range(KINDS)]
        ring = [
            (ring_losses or {}).get((cpu, kind), (0, 0))
            for cpu in range(cpus)
            for kind in range(KINDS)
        ]
        return (
            struct.pack("<8sII", b"LSSPRG2\0", VERSION, cpus)
            + struct.pack(f"<{KINDS}Q", *self.counts)
            # Detaching takes a while.
            + struct.pack("<3Q", len(self.records()), end_ns + DETACHED_NS, end_ns)
            + b"".join(struct.pack("<2Q", *loss) for loss in spool)
            + struct.pack("<3Q", missed_runs, failed_updates, end_ns and ~end_ns % 2**64)
            + b"".join(struct.pack("<2Q", *loss) for loss in ring)
        )

    def write(
        self,
        directory: Path,
        *,
        end_ns: int,
        records: bytes | None = None,
        session: Mapping[str, object] | None = None,
        probes: Sequence[Mapping[str, object]] | None = None,
        **progress: object,
    ) -> Path:
        directory.mkdir()
        (directory / "records.bin").write_bytes(self.records() if records is None else records)
        reported = {"host": "box", "argv": ["train"], **(session or {})}
        (directory / "session.json").write_text(json.dumps(reported))
        if probes is not None:
            lines = "".join(json.dumps(line) + "\n" for line in probes)
            (directory / "probes.jsonl").write_text(lines)
        content = self.progress(end_ns=end_ns, **progress)  # type: ignore[arg-type]
        (directory / "progress.bin").write_bytes(content)
        return directory
