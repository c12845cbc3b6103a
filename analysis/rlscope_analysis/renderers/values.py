"""Values as JSON and CSV write them."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.result.note import Note
from rlscope_analysis.wording import harmless_json


def plain_text(value: object, *, null: str) -> str:
    """Return the text of a value: numbers in the unit of their column, all of their digits."""
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, Note):
        return sentence_of(value)
    if isinstance(value, (list, tuple, dict)):
        return json_text(json_value(value))
    return value.hex() if isinstance(value, bytes) else str(value)


def json_text(value: object) -> str:
    """Return JSON that is readable in any script and holds nothing that a terminal would obey."""
    return harmless_json(json.dumps(value, ensure_ascii=False))


def json_value(value: Any) -> Any:  # noqa: ANN401
    """Return what stands for a value in JSON."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        # JSON has neither NaN nor infinity.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Note):
        return sentence_of(value)
    if isinstance(value, dict):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if is_dataclass(value):
        return {of.name: json_value(getattr(value, of.name)) for of in fields(value)}
    return value.hex() if isinstance(value, bytes) else str(value)
