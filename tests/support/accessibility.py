"""What axe-core finds in a page that keeps somebody from using it."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from browser import Browser

_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document).then((found) => done(found.violations.map((one) =>
  `${one.impact}: ${one.help} (${one.id}): ${one.nodes[0].html.slice(0, 120)}`)));
"""


def faults(browser: Browser) -> list[str]:
    """Return everything that axe-core finds, with how bad it is and where it is first."""
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    found: list[str] = browser.run_until(axe + _RUN)
    return found
