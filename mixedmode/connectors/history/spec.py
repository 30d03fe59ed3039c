"""A source made of two: a history that exists already, and its live continuation, with a seam between them.

Event time, watermark and boundedness are settings of the whole; each side only says where its records are.
The seam is half-open: records before it come from the history, records at or after it from the live side.
Example: with the seam at 10:00, the record of 10:00 comes from the live side.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from mixedmode.config.connectors import AnyHistory, AnyLive
from mixedmode.config.document import Path
from mixedmode.config.fields import CountOrZero, Instant, Section, Text, key_of, refusal
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.config.used_places import UsedPlace

Side = Literal["history", "live"]
_OF_A_SIDE = "computed_columns"  # the sides may have a column in different forms
_OF_THE_WHOLE = tuple(name for name in SourceSpec.model_fields if name != _OF_A_SIDE)


Offsets = Mapping[Text, Mapping[Annotated[int, Field(ge=0)], CountOrZero]]


class SeamSpec(Section):
    """The end of the history, at which the live side begins."""

    timestamp: Instant | None = Field(
        default=None,
        description="the history has the records before this point in time, the live side those at or after it",
    )
    column: Text | None = Field(
        default=None, description="the column that the timestamp is compared with; not given: event-time"
    )
    nulls: Literal["fail", "history", "live"] = Field(
        default="fail",
        description="the side that has the records without a value in that column, the other passes over its own; "
        "fail: there must be none",
    )
    offsets: Offsets | None = Field(
        default=None,
        description="by topic and partition, the first offset of the live side; the history holds exactly "
        "what is before them",
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if (self.timestamp is None) == (self.offsets is None):
            yield (), " has either timestamp or offsets. Give one of them."
        if self.offsets is not None:
            for key, is_given in {"column": self.column is not None, "nulls": self.nulls != "fail"}.items():
                if is_given:
                    yield (key,), " has no effect on a seam of offsets, which compares no column. Remove it."


class HistoryAndLiveSpec(SourceSpec):
    """A history and its live continuation, as one source."""

    may_be = frozenset()
    history: AnyHistory = Field(description="where the records before the seam are, a source of its own kind")
    live: AnyLive = Field(description="where those from the seam on come from, a source of a kind that grows")
    seam: SeamSpec = Field(description="where the one ends and the other begins")
    missing_columns: Literal["fail", "nulls"] = Field(
        default="fail",
        description="what becomes of a column that one side lacks: fail, or nulls in the records of that side",
    )

    @property
    @override
    def place(self) -> str:
        return f"history {self.history.place}, live {self.live.place}"

    @property
    @override
    def inner_sources(self) -> Mapping[Path, SourceSpec]:
        return {("history",): self.history, ("live",): self.live}

    @property
    @override
    def declaring(self) -> SourceSpec:
        return self.history if self.history.declared_schema else self.live

    @property
    @override
    def declared_schema(self) -> str | None:
        return self.declaring.declared_schema

    @property
    @override
    def used_places(self) -> tuple[UsedPlace, ...]:
        sides = {"history": self.history, "live": self.live}
        return tuple(replace(used, key=(name, *used.key)) for name, side in sides.items() for used in side.used_places)

    @property
    @override
    def outputs(self) -> Mapping[Path, SinkSpec]:
        return {("live", *path): sink for path, sink in self.live.outputs.items()}

    @property
    def sides(self) -> Mapping[Side, SourceSpec]:
        """The two sources as they are read. A seam of offsets is where the live side begins."""
        live = self.live if self.seam.offsets is None else self.live.beginning_at(self.seam.offsets)
        return {"history": self.history, "live": live}

    @property
    def seam_column(self) -> str | None:
        """The column that the seam's timestamp is compared with; None for a seam of offsets."""
        return None if self.seam.timestamp is None else self.seam.column or self.event_time

    @model_validator(mode="before")
    @classmethod
    def _whole_is_said_once(cls, data: Any) -> Any:
        """Refuse settings of the whole on a side.

        This runs before the sides are validated, which would ask for more of the settings that a side must not have.
        """
        findings = list(_said_of_a_side(data)) if isinstance(data, Mapping) else []
        if findings:
            raise refusal(*findings)
        return data

    @override
    def cannot_read_again(self, end: datetime) -> str | None:
        """Return None also if all the records are before the seam, so in the history, whatever the live side keeps."""
        seam = self.seam.timestamp
        if seam is not None and self.seam_column == self.event_time and end <= seam:
            return self.history.cannot_read_again(end)
        return self.history.cannot_read_again(end) or self.live.cannot_read_again(end)

    def _findings(self) -> Iterator[tuple[Path, str]]:
        yield from super()._findings()
        if self.computed_columns:
            text = " are said of each side, which may have other columns. Move them into history, live, or both."
            yield (key_of(_OF_A_SIDE),), text
        for path in self.history.outputs:
            yield ("history", *path), " is an output that only the live side can have. Remove it, with undecodable."
        if self.seam.timestamp is not None and self.seam_column is None:
            text = " is missing: without event-time, the seam does not say what its timestamp is compared with. Add it."
            yield ("seam", "column"), text
        if self.seam.offsets is not None:
            yield from self.live.seam_findings(self.seam.offsets)


def _said_of_a_side(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for side in ("history", "live"):
        given = data.get(side)
        if isinstance(given, SourceSpec):
            fields = type(given).model_fields
            keys = {key_of(name) for name in _OF_THE_WHOLE if getattr(given, name) != fields[name].default}
        elif isinstance(given, Mapping):
            keys = {key_of(name) for name in _OF_THE_WHOLE if given.get(key_of(name)) is not None}
        else:
            continue
        for key in sorted(keys):
            yield (side, key), " is said of the source as a whole. Move it out, beside history and live."
