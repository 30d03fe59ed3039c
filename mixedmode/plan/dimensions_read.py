"""Finds which sql steps of a job join which dimensions, for drawings. Pure: from the texts, without Spark.

A dimension is read where its name follows FROM or JOIN. Names in strings, comments and other places do not count.
"""

import re
from collections.abc import Iterator

from mixedmode.config import JobSpec, SqlStep

__all__ = ["dimensions_read"]

#: comments and strings, which are passed over; names in backticks; words; and any other character
_TOKEN = re.compile(
    r"""(?P<skipped>--[^\n]*|/\*.*?\*/|\s+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`(?P<quoted>[^`]*)`|(?P<word>\w+)|.""",
    re.DOTALL,
)


def dimensions_read(spec: JobSpec) -> Iterator[tuple[str, int]]:
    """Yield (dimension, index of a sql step that joins it), in the order of the steps."""
    names = {name.lower(): name for name in spec.dimensions}
    for index, step in enumerate(spec.steps):
        if names and isinstance(step, SqlStep):
            yield from ((names[name], index) for name in dict.fromkeys(_tables(step.sql)) if name in names)


def _tables(text: str) -> Iterator[str]:
    """Yield the names after FROM and JOIN in lower case.

    >>> list(_tables("SELECT 'FROM a' FROM `b` /* JOIN c */ LEFT JOIN D USING (k)"))
    ['b', 'd']
    """
    is_table = False
    for token in _TOKEN.finditer(text):
        if token["skipped"] is not None:
            continue
        name = (token["quoted"] or token["word"] or "").lower()
        if is_table and name:
            yield name
        is_table = token["quoted"] is None and name in {"from", "join"}
