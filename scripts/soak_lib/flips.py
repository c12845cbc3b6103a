"""Files with some bits changed, given to the commands: a trace or one error, and nothing worse."""

from __future__ import annotations

import gzip
import random
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import duckdb

from soak_lib.command_server import CommandServer, Done
from soak_lib.home import MODULE, FailureError, Home, SoakError
from soak_lib.os_kernel import until
from soak_lib.progress import Progress, say

_DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
_ROUNDS = 30
_MOST_FLIPS = 8
_MOST_CPU_S = 5
_MOST_GROWN_BYTES = 512 << 20
_DEADLINE_S = 120
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# What becomes no row of its own, or what the analysis makes anew.
_COUNTED = (
    "process", "thread", "clock", "native_call_coded", "cpu_sample", "operation_coded", "mark",
    "gpu_activity_coded",
)  # fmt: skip
_QUERY = "SELECT * FROM thread_state, (FROM trace_stat LIMIT 1) LIMIT 50"
_FURTHER = 10


@dataclass(frozen=True, slots=True)
class Kind:
    """What is damaged, and what is then done with it."""

    name: str
    sound: Path
    commands: tuple[tuple[str, ...], ...]
    """{} is what is damaged, {o} the trace that is made of it; a later one needs the earlier."""
    every: int = 1
    """Each so many times also those after the first."""


def run(home: Home, runs: int, seed: int, names: list[str]) -> bool:
    """Damage a spool, a trace and files of other profilers so many times each."""
    kinds = {kind.name: kind for kind in _kinds(home)}
    if unknown := [name for name in names if name not in kinds]:
        raise SoakError(f"no such kind: {', '.join(unknown)}", f"there are {', '.join(kinds)}")
    with CommandServer(home) as server:
        return all(_flip(home, server, kinds[name], runs, seed) for name in names or kinds)


def _kinds(home: Home) -> list[Kind]:
    spool = _record(home)
    trace = home.folder / "sound.duckdb"
    copy = home.folder / "copied.spool"
    shutil.copytree(spool, copy)
    done = home.run("recover", copy, "-o", trace)
    if done.returncode != 0:
        raise SoakError(f"recover ended with {done.returncode}: {done.stderr}", "rlscope-trace")
    # Compressed, nearly every change is seen by the checksum.
    kineto = home.folder / "sound.json"
    kineto.write_bytes(gzip.decompress((_DATA / "kineto/triton_example.json.gz").read_bytes()))
    asked = (("summarize", "{o}"), ("sql", "{o}", "FROM thread_time"))
    into = ("{}", "-o", "{o}", "--force")
    return [
        Kind("spool", spool, (("recover", *into), *asked), _FURTHER),
        Kind("trace", trace, (("summarize", "{}"), ("sql", "{}", _QUERY), ("explain", "{}"))),
        Kind("kineto", kineto, (("import", "kineto", *into), *asked), _FURTHER),
        Kind("nsys", _DATA / "nsys/mock.sqlite", (("import", "nsys", *into), *asked), _FURTHER),
    ]


def _record(home: Home) -> Path:
    """Return the spool of a recorder that was ended as it began to save."""
    trace, words = home.folder / "recorded.duckdb", home.folder / "recorded.words"
    spool = trace.with_name(f"{trace.name}.spool")
    program = home.program("worker", "--truth", home.folder / "truth.json", "--rounds", _ROUNDS)
    command = [home.recorder, "-o", str(trace), "--simulator", MODULE, "--", *program]
    with words.open("wb") as said:
        recorder = subprocess.Popen(
            command, env=home.environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
    try:
        until(
            lambda: " records" in words.read_text() or recorder.poll() is not None,
            "something is recorded", _DEADLINE_S,
        )  # fmt: skip
    finally:
        recorder.kill()
        recorder.wait()
    if not (spool / "records.bin").exists():
        raise SoakError(f"nothing was recorded: {words.read_text()}", "rlscope-trace doctor")
    return spool


def _flip(home: Home, server: CommandServer, kind: Kind, runs: int, seed: int) -> bool:
    progress = Progress(f"flips of {kind.name} (seed {seed})", runs)
    worst = Worst()
    folder = home.folder / kind.name
    try:
        sound = _outcome(server, kind, _fresh(kind, folder), worst, further=True)
        for number in range(runs):
            damaged = _fresh(kind, folder)
            what = _damage(damaged, random.Random(f"{kind.name} {seed} {number}"))
            try:
                further = number % kind.every == 0
                found = _outcome(server, kind, damaged, worst, further=further)
                _require_counted(sound, found)
            except FailureError as error:
                say(f"error: {kind.name} {number} ({what}): {error}\nhint: see {folder}")
                return False
            progress.counts["read" if found.rows else "refused, in plain words"] += 1
            progress.counts["with fewer rows, and reported"] += found.is_less_than(sound)
            progress.step()
    finally:
        say(progress.line())
        say(f"flips of {kind.name}: {worst}")
    return True


def _fresh(kind: Kind, folder: Path) -> Path:
    """Return a copy to damage, alone in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    copy = folder / kind.sound.name
    (shutil.copytree if kind.sound.is_dir() else shutil.copy)(kind.sound, copy)
    return copy


def _damage(path: Path, chance: random.Random) -> str:
    """Change some bits of a file, or of the files of a folder; return where."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    flips = []
    for _ in range(chance.choice([1, 1, 1, 2, _MOST_FLIPS])):
        # Small files decide about large ones: each is taken as often.
        file = chance.choice([one for one in files if one.stat().st_size])
        data = bytearray(file.read_bytes())
        # What stands at the start decides about the rest, too.
        at = chance.randrange(min(len(data), 4096) if chance.random() < 0.3 else len(data))
        bit = chance.randrange(8)
        data[at] ^= 1 << bit
        file.write_bytes(data)
        flips.append(f"{file.name}:{at}.{bit}")
    return ", ".join(flips)


class Worst:
    """The most that any command took."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.grown_bytes = 0
        self.commands = 0

    def note(self, done: Done) -> None:
        """Look at one more."""
        self.commands += 1
        self.cpu_s = max(self.cpu_s, done.cpu_s)
        self.grown_bytes = max(self.grown_bytes, done.grown_bytes)

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"{self.commands:,} commands; the longest took {self.cpu_s:.2f} s of CPU time, the"
            f" largest {self.grown_bytes / 1e6:.0f} MB more than when it began"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a damaged file."""

    rows: dict[str, int]
    """By table; empty where it was refused."""
    losses: frozenset[str]
    words: str

    def is_less_than(self, sound: Outcome) -> bool:
        """Tell whether it was read, and has fewer rows of some table."""
        return any(count < sound.rows.get(table, 0) for table, count in self.rows.items())


def _outcome(
    server: CommandServer, kind: Kind, path: Path, worst: Worst, *, further: bool
) -> Outcome:
    """Do with it what a user does; FailureError where a command does what it must not."""
    trace = path.with_name("made.duckdb") if "{o}" in kind.commands[0] else path
    words = ""
    for place, command in enumerate(kind.commands if further else kind.commands[:1]):
        done = server.run([
            word.replace("{o}", str(trace)).replace("{}", str(path)) for word in command
        ])  # fmt: skip
        worst.note(done)
        _require_well_behaved(command, done)
        words += done.err if place == 0 else ""
        if done.code != 0 and trace is not path:
            if place:
                raise FailureError(f"{command}: of a trace of ours: {done.err}")
            return Outcome({}, frozenset(), words)
    return Outcome(*_rows(trace), words)


def _require_well_behaved(command: tuple[str, ...], done: Done) -> None:
    text = done.out + done.err
    if done.code not in (0, 1, 2):
        raise FailureError(f"{command}: ended with {done.code}: {text[-2000:]}")
    if "Traceback" in text or "INTERNAL" in text:
        raise FailureError(f"{command}: {text[-2000:]}")
    if done.code and not (done.err.startswith("error: ") and "\nhint: " in done.err):
        raise FailureError(f"{command}: ended with {done.code} and no hint: {text[-2000:]}")
    if found := _RAW.search(text):
        raise FailureError(f"{command}: byte {found[0]!r} is printed")
    if done.cpu_s > _MOST_CPU_S:
        raise FailureError(f"{command}: took {done.cpu_s:.1f} s")
    if done.grown_bytes > _MOST_GROWN_BYTES:
        raise FailureError(f"{command}: grew by {done.grown_bytes / 1e6:.0f} MB")


def _rows(trace: Path) -> tuple[dict[str, int], frozenset[str]]:
    """Return the rows of each table, and the losses reported; nothing of what is no trace."""
    try:
        with duckdb.connect(str(trace), read_only=True) as con:
            rows = {}
            for table in _COUNTED:
                ((rows[table],),) = con.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608
            losses = con.execute("SELECT trace_stat::VARCHAR FROM trace_stat").fetchall()
    except duckdb.Error:
        return {}, frozenset()
    return rows, frozenset(reported for (reported,) in losses)


def _require_counted(sound: Outcome, found: Outcome) -> None:
    """Hold a trace that has fewer rows to saying so."""
    if found.is_less_than(sound) and found.losses == sound.losses:
        less = {name: (sound.rows[name], n) for name, n in found.rows.items()}
        raise FailureError(f"rows are missing, and no loss is reported: {less}; {found.words}")
