"""The part that keyed steps of one input have in common: a name, what the step reads, and its key."""

import re
from collections.abc import Iterator, Mapping

from pydantic import Field

from mixedmode.config.calls import is_column
from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, Count, Inputs, Section, TableName
from mixedmode.config.names import repeated

__all__ = ["Keyed", "Reading", "key_advice"]

#: an entry of `key-by` that is computed: an expression and its name
_COMPUTED = re.compile(r"(?P<expression>\S(?:.*\S)?)\s+as\s+(?P<name>\w+)", re.IGNORECASE)


def key_advice(text: str) -> str:
    """Return the advice about an entry of `key-by` that is no column, if it looks like an expression or several."""
    if is_column(text):
        return ""
    return " In key-by, an expression has a name, as in `date(at) AS day`, and several columns are a list."


class Reading(Section):
    """The name of a step, and what it reads."""

    name: TableName | None = Field(default=None, description="a name for the step")
    from_: Inputs = Field(
        default=(),
        description="the sources and steps that it reads, by name; not given: the step before it, or the sources",
    )


class Keyed(Reading):
    """The key of a keyed step."""

    key_by: Columns = Field(
        description="one or several: columns, or expressions with a name, such as date(at) AS day", min_length=1
    )
    parallelism: Count | None = Field(
        default=None, description="subtasks of this step; not given: as many as the job has"
    )

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(found["name"] if (found := _COMPUTED.fullmatch(text)) else text for text in self.key_by)

    @property
    def has_window_key(self) -> bool:
        """True if the key has columns with the names of the bounds of a window."""
        return {"window_start", "window_end"} <= {column.lower() for column in self.key_columns}

    @property
    def key_expressions(self) -> Mapping[str, str]:
        """{name: expression} of the key columns that are computed."""
        found = [match for text in self.key_by if (match := _COMPUTED.fullmatch(text))]
        return {match["name"]: match["expression"] for match in found}

    def _parallelism_findings(self) -> Iterator[tuple[Path, str]]:
        if not self.key_by and self.parallelism is not None:
            text = " has no effect without a key: all records go to one subtask. Add key columns, or remove it."
            yield ("parallelism",), text

    def _key_findings(self) -> Iterator[tuple[Path, str]]:
        for column, _ in repeated(self.key_columns, {}):
            yield ("key-by",), f" names a column twice. Remove one. found={column}"
        for name in self.key_expressions:
            if name.startswith("_"):
                yield ("key-by",), f": names that start with _ are kept. Choose another. found={name}"
