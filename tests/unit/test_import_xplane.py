"""`import xplane`: phases inside one jit, threads, GPUs, and what is not measured."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING, Any

import pytest

from trace_builder import REPOSITORY
from xplane_builder import XplaneBuilder, imported, instruction, program, rows

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

DATA = REPOSITORY / "tests" / "data" / "xplane"
# Of the program there: make.py.
UPDATES = 2
_INSTRUCTIONS = """
SELECT s.symbol, o.name, count(*) FROM native_call AS n
JOIN site AS s USING (site_id)
JOIN operation AS o ON o.thread_id = n.thread_id AND o.source = 'hlo' AND o.depth = 1
  AND n.start_ns >= o.start_ns AND n.start_ns < o.end_ns
WHERE s.module = 'jit_train' GROUP BY ALL
"""
GYM = "/x/site-packages/gymnax/environments/environment.py"
OPTAX = "/x/site-packages/optax/_src/transform.py"
FLAX = "/x/site-packages/flax/linen/linear.py"


def unpacked(folder: Path, name: str) -> Path:
    path = folder / f"{name}.xplane.pb"
    path.write_bytes(lzma.decompress((DATA / f"{name}.xplane.pb.xz").read_bytes()))
    return path


def operations(con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    query = "SELECT name, source, depth, start_ns, end_ns FROM operation ORDER BY start_ns, depth"
    return rows(con, query)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    found = {}
    for epochs in (2, 6):
        path = unpacked(tmp_path_factory.mktemp("profile"), f"epochs{epochs}")
        with imported(path) as con:
            found[epochs] = rows(con, _INSTRUCTIONS)
    return found


class TestRealProgram:
    """A PPO that is one jit, with two and with six epochs, on a CPU."""

    def total(self, counts: list[Any], phase: str) -> int:
        return sum(count for _, name, count in counts if name == phase)

    def test_three_times_the_epochs(self, counts: dict[int, list[Any]]) -> None:
        few, many = counts[2], counts[6]
        for phase in ("simulation", "inference"):
            assert self.total(few, phase) == self.total(many, phase) > 0
        assert self.total(many, "optimizer") == 3 * self.total(few, "optimizer") > 0
        # XLA moves out of the loop what all epochs have in common: that runs once an update.
        once = [
            sum(n for _, name, n in of if name == "backpropagation" and n == UPDATES)
            for of in (few, many)
        ]
        assert once[0] == once[1]
        learned = self.total(few, "backpropagation") - once[0]
        assert self.total(many, "backpropagation") - once[1] == 3 * learned > 0

    def test_little_is_unmapped(self, tmp_path: Path) -> None:
        with imported(unpacked(tmp_path, "epochs6")) as con:
            ((detail, is_part),) = rows(
                con, "SELECT detail, part FROM coverage WHERE code = 'xplane_phases'"
            )
            kinds = rows(con, "SELECT kind, measured FROM coverage WHERE process_id IS NULL")
            ((whole, phases),) = rows(
                con,
                "SELECT sum(duration_ns) FILTER (depth = 0), sum(duration_ns) FILTER (depth = 1)"
                " FROM operation WHERE source = 'hlo'",
            )
        assert is_part
        assert 0 < float(detail.split()[0]) <= 6
        assert dict(kinds) == {"thread_state": False, "wait": False}
        assert 0 < phases < whole


class TestPhases:
    """What an instruction is, by its metadata."""

    def phases_of(self, tmp_path: Path, proto: bytes, *names: str) -> list[str | None]:
        """Return the phase that each instruction is shown in; None: in that of its program."""
        builder = XplaneBuilder()
        thread = builder.plane("/host:CPU").line("main")
        for at, name in enumerate(names):
            thread.event(name, 10 * at, 10 * at + 5, hlo_op=name, hlo_module="jit_f", program_id=3)
        builder.program(3, proto)
        with imported(builder.write(tmp_path / "a.xplane.pb")) as con:
            inner = dict(
                rows(con, "SELECT start_ns, name FROM operation WHERE depth = 1 ORDER BY start_ns")
            )
        return [inner.get(10 * at) for at in range(len(names))]

    def test_of_itself(self, tmp_path: Path) -> None:
        proto = program(
            "jit_f",
            [
                instruction(1, "a", "jit(f)/add", file=GYM),
                instruction(2, "b", "jit(f)/mul", file=OPTAX),
                instruction(3, "c", "jit(f)/transpose(jvp(Net))/dot", file=FLAX),
                instruction(4, "d", "jit(f)/jvp(Net)/dot", file=FLAX),
                instruction(5, "e", "jit(f)/Net/dot", file=FLAX),
                instruction(6, "f", "jit(f)/add", file="/x/train.py"),
                instruction(7, "g", "jit(f)/transpose(jvp(f))/add", file=GYM),
            ],
        )
        assert self.phases_of(tmp_path, proto, *"abcdefg") == [
            "simulation", "optimizer", "backpropagation", "backpropagation", "inference", None,
            "simulation",
        ]  # fmt: skip

    def test_of_the_stack(self, tmp_path: Path) -> None:
        of_a, of_b = (instruction(n, "ab"[n - 1], "jit(f)/add", frame=n) for n in (1, 2))
        proto = program("jit_f", [of_a, of_b], files=["/x/train.py", GYM])
        assert self.phases_of(tmp_path, proto, "b", "a") == ["simulation", "inference"]

    def test_of_its_parts_and_neighbours(self, tmp_path: Path) -> None:
        main = [
            instruction(1, "fusion", "jit(f)/x", opcode="fusion", called=[2]),
            instruction(2, "copy", opcode="copy", operands=[1]),
            instruction(3, "other", "jit(f)/sort"),
            instruction(4, "back", "jit(f)/transpose(jvp(f))/dot"),
            instruction(5, "lone", opcode="copy"),
        ]
        parts = [
            instruction(11, "p", "x", file=OPTAX),
            instruction(12, "q", "x", file=OPTAX),
            instruction(13, "r", "x", file=GYM),
        ]
        proto = program("jit_f", main, parts)
        found = self.phases_of(tmp_path, proto, "fusion", "copy", "back")
        assert found == ["optimizer", "optimizer", "backpropagation"]

    def test_a_loop_that_acts_and_one_that_neither(self, tmp_path: Path) -> None:
        main = [
            instruction(1, "w", "jit(f)/while", opcode="while", called=[2]),
            instruction(2, "v", "jit(f)/while", opcode="while", called=[4]),
        ]
        acting = [
            instruction(11, "step", "x", file=GYM),
            instruction(12, "draw", "jit(f)/while/body/sample"),
            instruction(13, "u", "jit(f)/while/body/while", opcode="while", called=[3]),
        ]
        inner = [instruction(21, "bits", "jit(f)/while/body/while/body/xor")]
        returns = [instruction(31, "gae", "jit(f)/while/body/mul")]
        proto = program("jit_f", main, acting, inner, returns)
        assert self.phases_of(tmp_path, proto, "step", "draw", "bits", "gae", "u", "v") == [
            "simulation", "inference", "inference", None, "inference", None,
        ]  # fmt: skip

    def test_loops_that_call_themselves(self, tmp_path: Path) -> None:
        loop = instruction(1, "w", opcode="while", called=[1])
        proto = program("jit_f", [loop, instruction(2, "a", file=GYM)])
        assert self.phases_of(tmp_path, proto, "a", "w")[0] == "simulation"

    def test_without_programs(self, tmp_path: Path) -> None:
        builder = XplaneBuilder()
        thread = builder.plane("/host:CPU").line("main")
        thread.event("a", 0, 10, hlo_op="a", hlo_module="jit_f")
        path = builder.write(tmp_path / "a.xplane.pb")
        with imported(path) as con:
            assert operations(con) == [("jit_f", "hlo", 0, 0, 10)]
            assert rows(con, "SELECT count(*) FROM coverage WHERE code = 'xplane_no_programs'")
        dump = tmp_path / "dump"
        dump.mkdir()
        proto = program("jit_f", [instruction(1, "a", file=GYM)])
        (dump / "module_0001.jit_f.cpu_after_optimizations.hlo.pb").write_bytes(proto)
        with imported(path, hlo=dump) as con:
            assert [row[0] for row in operations(con)] == ["jit_f", "simulation"]


class TestThreadsAndTimes:
    def test_times_are_cut_to_whole_ns(self, tmp_path: Path) -> None:
        builder = XplaneBuilder()
        builder.clock(1_700_000_000_000_000_000)
        thread = builder.plane("/host:CPU").line("main", number=77)
        thread.event("outer", 1.2, 30.9)
        thread.event("$train.py:12 step", 2.5, 20.75)
        thread.event("instant", 3, 3)
        thread.event("Iteration", 5, 10, step_num=4)
        with imported(builder.write(tmp_path / "a.xplane.pb")) as con:
            calls = rows(
                con,
                "SELECT s.module, s.symbol, n.layer, n.start_ns, n.end_ns, n.depth"
                " FROM native_call AS n JOIN site AS s USING (site_id) ORDER BY n.start_ns",
            )
            assert calls == [
                ("xla", "outer", "backend", 1, 30, 0),
                ("train.py", "step:12", "python", 2, 20, 1),
            ]
            assert operations(con) == [("Iteration", "jax", 0, 5, 10)]
            assert rows(con, "SELECT tid, name, start_ns, end_ns FROM thread") == [
                (77, "main", 1, 30)
            ]
            assert rows(con, "SELECT realtime_ns FROM clock") == [(1_700_000_000_000_000_000,)]
            assert rows(con, "SELECT code, count FROM trace_stat") == [("xplane_instants", 1)]
            assert rows(con, "SELECT host FROM process") == [("box",)]

    def test_neighbours_of_a_phase_are_one_range(self, tmp_path: Path) -> None:
        builder = XplaneBuilder()
        thread = builder.plane("/host:CPU").line("pool")
        thread.event("ThunkExecutor::Execute", 0, 100)
        for name, start_ns in (("a", 10), ("b", 30), ("c", 50), ("a", 70), ("a", 120)):
            thread.event(name, start_ns, start_ns + 10, hlo_op=name, hlo_module="jit_f")
        proto = [instruction(1, "a", file=GYM), instruction(2, "b", file=GYM),
                 instruction(3, "c", "sort", file="/x/train.py"),
                 instruction(4, "d", "jvp(f)/dot")]  # fmt: skip
        builder.program(9, program("jit_f", proto))
        with imported(builder.write(tmp_path / "a.xplane.pb")) as con:
            assert operations(con) == [
                ("jit_f", "hlo", 0, 0, 100),
                ("simulation", "hlo", 1, 10, 40),
                ("simulation", "hlo", 1, 70, 80),
                ("jit_f", "hlo", 0, 120, 130),
                ("simulation", "hlo", 1, 120, 130),
            ]

    def test_several_files_are_on_one_clock(self, tmp_path: Path) -> None:
        paths = []
        for number in range(2):
            builder = XplaneBuilder()
            builder.clock(1_700_000_000_000_000_000 + 500 * number)
            builder.plane("/host:CPU").line("main").event("a", 10, 20)
            paths.append(builder.write(tmp_path / f"{number}.xplane.pb"))
        with imported(*paths) as con:
            found = rows(con, "SELECT process_id, start_ns FROM process ORDER BY 1")
        assert found == [(1, 10), (2, 510)]


class TestGpu:
    def test_activities_and_the_phase_of_their_launch(self, tmp_path: Path) -> None:
        builder = XplaneBuilder()
        stream = builder.plane("/device:GPU:1").line("Stream #7(Compute)")
        of_a = {"hlo_op": "a", "hlo_module": "jit_f", "program_id": 9}
        stream.event("loop_fusion", 100, 150, correlation_id=5, **of_a)
        stream.event("MemcpyD2H", 160, 170, correlation_id=6, memcpy_details="kind")
        builder.planes[-1].line("XLA Ops").event("a", 100, 150)
        host = builder.plane("/host:CPU").line("main")
        host.event("cuLaunchKernel", 10, 20, correlation_id=5)
        host.event("cuMemcpyDtoHAsync", 30, 40, correlation_id=6)
        builder.program(9, program("jit_f", [instruction(1, "a", file=GYM)]))
        with imported(builder.write(tmp_path / "a.xplane.pb")) as con:
            assert rows(
                con,
                "SELECT device_id, stream_id, kind, name, start_ns, end_ns, correlation_id"
                " FROM gpu_activity ORDER BY start_ns",
            ) == [
                (1, 7, "kernel", "loop_fusion", 100, 150, 5),
                (1, 7, "memcpy", "MemcpyD2H", 160, 170, 6),
            ]
            assert rows(con, "SELECT name, kind, correlation_id FROM cuda_call ORDER BY 3") == [
                ("cuLaunchKernel", "launch", 5),
                ("cuMemcpyDtoHAsync", "memcpy", 6),
            ]
            assert operations(con) == [("simulation", "hlo", 0, 10, 20)]
            assert rows(con, "SELECT record, count FROM trace_stat WHERE code LIKE '%skipped'") == [
                ("/device:GPU:1 XLA Ops", 1)
            ]
