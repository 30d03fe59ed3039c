"""The names of the outputs that are not of whole steps: late records, and records on which a function raised.

Other side outputs are named by their tags, which have no hyphen.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

__all__ = ["DEAD_LETTER", "LATE", "LATE_OF_SIDES", "dead_letter_output", "numbered_columns", "side_output"]

LATE, DEAD_LETTER = "late", "dead-letter"
#: late rows of the left and of the right of a join
LATE_OF_SIDES = ("late-left", "late-right")
_OF_STEPS = frozenset({LATE, DEAD_LETTER, *LATE_OF_SIDES})


def dead_letter_output(source: str) -> str:
    """Return the name of the output for records that a source cannot decode."""
    return f"{source}-{DEAD_LETTER}"


def side_output(operator_id: str, tag: str) -> str:
    """Return the name of a step's side output. Several steps may have late records and dead letters."""
    return f"{operator_id}-{tag}" if tag in _OF_STEPS else tag


def numbered_columns(fields_by_tag: Mapping[str, Sequence[pa.Field]]) -> dict[str, tuple[tuple[int, pa.Field], ...]]:
    """Return {tag: its columns}, all of them numbered in one order; no tag without columns.

    Example: {"late-left": (a, b), "late-right": (c,)} becomes {"late-left": ((0, a), (1, b)), "late-right": ((2, c),)}.
    """
    found, start = {}, 0
    for tag, fields in fields_by_tag.items():
        if fields:
            found[tag] = tuple(enumerate(fields, start))
            start += len(fields)
    return found
