"""How commands print answers."""

import shutil
import sys
from collections.abc import Iterable
from enum import Enum

from rlscope_analysis.renderers import csv, json, text
from rlscope_analysis.result.table import Answer


class AnswerFormat(str, Enum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def render(
    found: Answer, output_format: AnswerFormat, *, limit: int | None, to_file: bool = False
) -> Iterable[str]:
    """Return the text of an answer; of tables at most `limit` rows (None: all)."""
    if output_format is AnswerFormat.JSON:
        return json.render(found)
    if output_format is AnswerFormat.CSV:
        return csv.render(found.data)
    is_terminal = sys.stdout.isatty() and not to_file
    width = shutil.get_terminal_size().columns if is_terminal else text.WIDTH_ELSEWHERE
    return [text.render(found, limit=limit, width=width, is_terminal=is_terminal)]
