"""Tables with the codes of native code in place of words: for references that reckon in codes."""

from __future__ import annotations

from rlscope_analysis.schema import declared_tables
from rlscope_analysis.schema.enums import ENUMS, code_of
from rlscope_analysis.schema.vocabulary import NOT_MEASURED


def coded(table: str, *, with_rowid: bool = False) -> str:
    """Return what stands after FROM in place of a table; 0 is no layer and no wait."""
    shown = []
    for column, type_name in declared_tables()[table].items():
        if column == "gpu":
            shown.append(f"coalesce(gpu::INTEGER, {NOT_MEASURED}) AS gpu")
        elif type_name == "THREAD_STATE":
            shown.append(f"coalesce(enum_code({column})::INTEGER, {NOT_MEASURED}) AS {column}")
        elif type_name in ENUMS:
            shown.append(f"{code_of(type_name, column)}::INTEGER AS {column}")
        else:
            shown.append(column)
    columns = ", ".join(["rowid"] * with_rowid + shown)
    return f"(SELECT {columns} FROM {table})"
