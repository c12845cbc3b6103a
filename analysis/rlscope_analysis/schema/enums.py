"""The ENUM types of columns that hold words, and how their words become codes of native code.

DuckDB stores a word as a byte, and compares it as one. Native code has the place of the word in the
vocabulary: 0 stands for NULL where that begins with None.
"""

from __future__ import annotations

from rlscope_analysis.schema import vocabulary

Words = tuple[str | None, ...]

# A word that is added comes last: traces hold their places.
ENUMS: dict[str, Words] = {
    "CAUSE": vocabulary.CAUSES,
    "CUDA_CALL_KIND": vocabulary.CUDA_CALL_KINDS,
    "CALL_OUTCOME": vocabulary.CALL_OUTCOMES,
    "ESTIMATE_METHOD": vocabulary.ESTIMATE_METHODS,
    "GPU_ACTIVITY_KIND": vocabulary.GPU_ACTIVITY_KINDS,
    "LAYER": vocabulary.LAYERS,
    "PROBE_EVENT": vocabulary.EVENTS,
    "THREAD_STATE": vocabulary.THREAD_STATES,
    "WAIT_KIND": vocabulary.WAITS,
    "WAKER_KIND": vocabulary.WAKER_KINDS,
}


def spelled_out(type_name: str) -> str:
    """Return how DuckDB writes a type: ENUM('running', ...); the name where it is no ENUM."""
    if type_name not in ENUMS:
        return type_name
    return "ENUM({})".format(", ".join(f"'{word}'" for word in ENUMS[type_name] if word))


def types_sql() -> str:
    """Return the statements that create the types in the database in use, where they are not."""
    return "".join(f"CREATE TYPE IF NOT EXISTS {name} AS {spelled_out(name)};" for name in ENUMS)


def word_of(type_name: str, code: str) -> str:
    """Return SQL for the word of a code; NULL where there is none."""
    place = code if ENUMS[type_name][0] is None else f"{code}::INTEGER + 1"
    return f"(enum_range(NULL::{type_name})::{type_name}[])[{place}]"


def code_of(type_name: str, column: str) -> str:
    """Return SQL for the code of a word."""
    if ENUMS[type_name][0] is None:
        return f"coalesce(enum_code({column}) + 1, 0)::UTINYINT"
    return f"enum_code({column})"
