"""The frame of a page: it may load nothing, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.renderers.html.markup import Html, Markup


def document(
    m: Markup, title: str, parts: Iterable[Html | None], *, script: str | None = None
) -> str:
    """Return a page of these parts."""
    style = own_file("page.css")
    allowed = f"style-src '{_hash(style)}';"
    if script is not None:
        allowed += f" script-src '{_hash(script)}';"
    policy = f"default-src 'none'; {allowed} base-uri 'none'; form-action 'none'"
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            '<meta name="color-scheme" content="light dark">\n',
            m.tag("title", title),
            f"\n<style>{style}</style>\n</head>\n<body>\n<main>\n",
            "\n".join(part for part in parts if part),
            "\n</main>\n",
            "" if script is None else f"<script>{script}</script>\n",
            "</body>\n</html>\n",
        ]
    )


@cache
def own_file(name: str) -> str:
    """Return the text of a file that lies beside this one."""
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
