"""One file of HTML that needs nothing else and asks nobody: what stands around the parts."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.renderers.html.markup import Html, Markup

# For hatching, which colours alone could not tell from other greys.
PATTERN = (
    '<svg width="0" height="0" class="defs" aria-hidden="true"><defs><pattern id="hatch"'
    ' patternUnits="userSpaceOnUse" width="6" height="6" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="hatch-back"/><rect width="2" height="6" class="hatch-line"/>'
    "</pattern></defs></svg>"
)
"""Once in a page: what the class `waits` is filled with."""


def document(
    m: Markup, title: str, parts: Iterable[Html | None], *, has_script: bool = True
) -> str:
    """Return a whole file; parts: what is in it, None is left out."""
    style, script = own_file("page.css").strip(), own_file("page.js").strip()
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " base-uri 'none'; form-action 'none'"
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            '<meta name="color-scheme" content="light dark">\n',
            m.tag("title", title),
            f"\n<style>{style}</style>\n</head>\n<body>\n{PATTERN}<main>\n",
            "\n".join(part for part in parts if part),
            "\n</main>\n",
            f"<script>{script}</script>\n" if has_script else "",
            "</body>\n</html>\n",
        ]
    )


@cache
def own_file(name: str) -> str:
    """Return the text of a file beside this one."""
    return resources.files("rlscope_analysis.renderers.html").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
