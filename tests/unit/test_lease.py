"""How long a recorder may go on without whoever started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlscope_trace.errors import UsageError
from rlscope_trace.record.lease import Lease, renew

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lease_is_over_when_its_time_is(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    renew(path, 3600)
    lease = Lease(path)
    assert not lease.is_over()
    renew(path, -1)
    assert lease.is_over()
    renew(path, 3600)
    assert not lease.is_over()


def test_one_that_is_gone_is_over(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    renew(path, 3600)
    lease = Lease(path)
    path.unlink()
    assert lease.is_over()


def test_processes_that_come_later_are_named_once(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    renew(path, 3600, [4])
    lease = Lease(path)
    assert lease.take_new_pids() == [4]
    renew(path, 3600, [4, 5])
    assert not lease.is_over()
    assert lease.take_new_pids() == [5]
    assert lease.take_new_pids() == []


@pytest.mark.parametrize("text", [None, "", "now", "1 2 x", "\0" * 9])
def test_what_is_no_lease_is_said(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "lease"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match="is no lease"):
        Lease(path)
