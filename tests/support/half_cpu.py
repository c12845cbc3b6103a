"""A cgroup with a CPU quota, for tests of what it takes from a program."""

from __future__ import annotations

import os
from pathlib import Path


class HalfCpu:
    """A cgroup of its own that may use half of a CPU."""

    def __init__(self) -> None:
        v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
        self.is_v1 = (v1 / "cpu.cfs_quota_us").exists() or (v1 / "cgroup.procs").exists()
        self.folder = (v1 if self.is_v1 else v2) / f"rlscope-test-{os.getpid()}"
        self.folder.mkdir()
        try:
            if self.is_v1:
                (self.folder / "cpu.cfs_period_us").write_text("100000")
                (self.folder / "cpu.cfs_quota_us").write_text("50000")
                (self.folder / "cpu.shares").write_text("262144")
            else:
                (self.folder / "cpu.max").write_text("50000 100000")
                (self.folder / "cpu.weight").write_text("10000")
        except OSError:
            self.folder.rmdir()
            raise

    def throttled_ns(self) -> int:
        """Return for how long it was stopped, as the OS kernel counts it."""
        words = (self.folder / "cpu.stat").read_text().split()
        reported = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return reported["throttled_time"] if self.is_v1 else reported["throttled_usec"] * 1000
