"""How long a recorder may go on without whoever started it."""

from __future__ import annotations

import threading
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


def test_several_that_renew_it_at_once_never_leave_it_over(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    renew(path, 60)
    lease, failures = Lease(path), []

    def keep_renewing() -> None:
        try:
            for _ in range(300):
                renew(path, 60, (1, 2))
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=keep_renewing) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not lease.is_over()
    assert failures == []
    assert [one.name for one in tmp_path.iterdir()] == ["lease"]
