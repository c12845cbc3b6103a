"""Reads how much energy the CPU packages of the machine have used (RAPL), for those who may.

https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_ZONES = Path("/sys/class/powercap")


class PackageEnergy:
    """Adds up the packages; each counts up to a limit of its own and begins at 0 again."""

    def __init__(self, zones: Path = _ZONES) -> None:
        self._zones: dict[Path, tuple[int, int]] = {}
        self._total_uj = 0
        # Parts of a package (intel-rapl:0:0) are zones, too.
        for zone in sorted(zones.glob("*rapl:*")):
            with suppress(OSError, ValueError):
                if zone.name.count(":") == 1 and (zone / "name").read_text()[:8] == "package-":
                    limit_uj = int((zone / "max_energy_range_uj").read_text())
                    self._zones[zone] = (int((zone / "energy_uj").read_text()), limit_uj)

    def read(self) -> dict[str, int]:
        """Return what was used since the first reading, in uJ; nothing where it cannot be read."""
        try:
            for zone, (last, limit_uj) in self._zones.items():
                now = int((zone / "energy_uj").read_text())
                self._total_uj += now - last if now >= last else now + limit_uj - last
                self._zones[zone] = (now, limit_uj)
        except (OSError, ValueError):
            self._zones.clear()
        return {"package_energy": self._total_uj} if self._zones else {}
