"""The probes of calls that are taken away for a while: what happens if they do not come back."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Any

import pytest
from rlscope_trace.record.instruments.call_switch import CallSwitch

from rlscope_trace.record.instruments.log import ProbeLog

if TYPE_CHECKING:
    from pathlib import Path


class Probes:
    """Probes that the OS kernel takes away, but does not put back."""

    limit = None

    def suspend(self) -> None: ...

    def resume(self) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")


def test_probes_that_do_not_come_back_are_given_up_and_none_is_attached_any_more(
    tmp_path: Path,
) -> None:
    told = []

    def give_up(code: str, detail: str) -> None:
        told.append((code, detail))
        with switch.ending():
            pass

    log = ProbeLog(tmp_path)
    probes: Any = Probes()
    switch = CallSwitch(probes, log, give_up)
    switch.suspend()
    # What the other thread finds is to be attached just now.
    with pytest.raises(OSError, match="the probes of calls were taken away"), switch.changing():
        pytest.fail("attached probes that nobody governs")
    log.close()
    assert told == [("probes_gone", "Cannot allocate memory")]
    assert not switch.is_away
    assert not switch.is_settled
    opened, closed = map(json.loads, (tmp_path / "probes.jsonl").read_text().splitlines())
    assert opened["end_ns"] is None
    assert closed["start_ns"] == opened["start_ns"] <= closed["end_ns"]
