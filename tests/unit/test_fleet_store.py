"""Traces in an object store: a real server of S3's protocol on this machine."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from moto.server import ThreadedMotoServer

from recording import rlscope
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet import recorder
from rlscope_trace.fleet.bucket import Bucket, store_of
from rlscope_trace.fleet.keeper import Keeper, Started
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}  # fmt: skip
STORE = "s3://traces/run/1"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    # What other tests have put there is gone.
    for method, path in (("POST", "moto-api/reset"), ("PUT", "traces")):
        request = urllib.request.Request(f"http://{host}:{port}/{path}", method=method)
        urllib.request.urlopen(request, timeout=10).close()
    yield Bucket(STORE)
    server.stop()


@pytest.mark.parametrize(
    ("given", "store"),
    [
        ("s3://b/run/", "s3://b/run"), (Path("s3://b/run"), "s3://b/run"), ("s3:", None),
        ("/s3/b", None), ("run", None), ("s3", None),
    ],
)  # fmt: skip
def test_an_address_is_one_however_it_is_written(given: object, store: str | None) -> None:
    assert store_of(given) == store


def test_files_come_back_as_they_were(bucket: Bucket, tmp_path: Path) -> None:
    bucket.write("a", b"12345")
    assert bucket.read("a", 5) == b"12345"
    assert bucket.read("a", 4) is None
    assert bucket.read("b", 5) is None
    assert (bucket.has("a"), bucket.has("b")) == (True, False)
    content = os.urandom(3 << 20)
    (tmp_path / "large").write_bytes(content)
    bucket.put(tmp_path / "large", "large")
    assert bucket.read("large", 4 << 20) == content


def test_a_store_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TracerError, match="cannot write a to s3://traces/run/1"):
        Bucket(STORE).write("a", b"")


def test_a_fleet_is_summarized_from_where_its_traces_were_put(
    bucket: Bucket, tmp_path: Path
) -> None:
    """Of the traces only the answers are read."""
    members, total_ns = [], 0
    for number in (1, 2):
        builder = TraceBuilder(tmp_path / f"node{number}.duckdb")
        builder.thread(builder.process(pid=number), states=[run(100 * number), sleep(50)])
        total_ns += 100 * number + 50
        output = builder.write()
        folder = tmp_path / f"keeper{number}"
        folder.mkdir()
        store = f"{STORE}/{output.name}"
        ended_before = recorder.Started(4_194_300, None, str(folder), str(output), 1.0)
        started = Started(ended_before, store)
        ended = Keeper().stop(started, None, 0)
        assert ended.has_trace, ended.words
        assert ended.output == f"{STORE}/{output.name}"
        members.append({"node": output.stem, "trace": output.name, "partial_mark": ended.mark})
    manifest = {"format": "rlscope-fleet", "version": 1, "members": members}
    bucket.write("manifest.json", json.dumps(manifest).encode())
    assert bucket.has("node1.duckdb")
    done = rlscope("fleet", "summarize", STORE, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["breakdown_total_ns"] == total_ns
    assert [one["member"] for one in answer["members"]] == ["node1", "node2"]


def test_a_store_without_a_manifest_is_said(bucket: Bucket) -> None:
    done = rlscope("fleet", "summarize", STORE)
    assert done.returncode == 1
    assert f"{STORE} holds no manifest.json" in done.stderr
    assert not bucket.has("manifest.json")


def test_a_trace_that_cannot_be_put_there_is_kept(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not bucket.has("node.duckdb")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    builder = TraceBuilder(tmp_path / "node.duckdb")
    builder.thread(builder.process(pid=1), states=[run(100)])
    output = builder.write()
    (tmp_path / "keeper").mkdir()
    ended_before = recorder.Started(4_194_300, None, str(tmp_path / "keeper"), str(output), 1.0)
    started = Started(ended_before, f"{STORE}/node.duckdb")
    ended = Keeper().stop(started, None, 0)
    assert not ended.has_trace
    kept = Path(ended.words.rpartition("the trace is kept on its node: ")[2].strip())
    assert kept.stat().st_size > 0


def test_sql_says_what_to_do(bucket: Bucket) -> None:
    done = rlscope("fleet", "sql", "SELECT 1", STORE)
    assert done.returncode == 2
    assert "aws s3 cp --recursive" in done.stderr
    assert not bucket.has("manifest.json")
