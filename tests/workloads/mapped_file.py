"""Reads a mapped file page by page; prints its own page faults as JSON.

dropped: each round from the disk, whatever memory there is; kept: from memory, if it has room.
"""

import json
import mmap
import os
import resource
import sys
from pathlib import Path

path, mib, rounds, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
with Path(path).open("w+b") as file:
    for _ in range(mib):
        file.write(os.urandom(1 << 20))
    file.flush()
    os.fsync(file.fileno())
    for _ in range(rounds):
        if how == "dropped":
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            if how == "dropped":
                mapped.madvise(mmap.MADV_RANDOM)
            total = sum(mapped[at] for at in range(0, len(mapped), mmap.PAGESIZE))
faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
sys.stdout.write(json.dumps({"major_faults": faults}) + "\n")
