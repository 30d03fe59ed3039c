"""Rows as versions by time: the right of an as-of join, and the inputs of a function that every subtask has."""

from collections.abc import Iterator

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.fields import Columns, LatenessMs, Section, SpanMs, Text
from mixedmode.config.names import repeated

__all__ = ["BroadcastSpec", "VersionSettings"]


class VersionSettings(Section):
    """Settings that decide the row of a key that is in force at a time."""

    tie_break: Columns = Field(
        default=(),
        description="columns that order rows of one key and time, the greatest counts; not given: there is one such "
        "row",
    )
    tolerance_ms: SpanMs | None = Field(default=None, description="the greatest age of a row; not given: any")
    deleted: Text | None = Field(
        default=None, description="a boolean column; a row where it is true ends the one before it"
    )


class BroadcastSpec(VersionSettings):
    """An input of a function whose rows are versions by time, which every subtask has."""

    from_: Text = Field(description="the source or step")
    key: Columns = Field(
        description="one or several columns: a row replaces the one before it with the same values", min_length=1
    )
    history_ms: LatenessMs = Field(
        default=0, description="how long before the time of a record the function may ask for versions"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        for key, columns in (("key", self.key), ("tie-break", self.tie_break)):
            for column, _ in repeated(columns, {}):
                yield (key,), f" names a column twice. Remove one. found={column}"
