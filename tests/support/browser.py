"""The browsers in which pages are tried: both drivers have the same methods."""

from __future__ import annotations

import shutil

from chromium import CHROMIUM, DRIVER, Chromium
from firefox import Firefox, name_of_command

Browser = Chromium | Firefox
BROWSERS = {"chromium": Chromium, "firefox": Firefox}


def lacking() -> str | None:
    """Return what is not there; None: all is."""
    missing = [name for name in (CHROMIUM, DRIVER) if shutil.which(name) is None]
    missing += [] if name_of_command() else ["firefox-esr"]
    return f"{' and '.join(missing)} not installed" if missing else None
