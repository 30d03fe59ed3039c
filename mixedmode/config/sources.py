"""The common base of all sources: event time and boundedness. Each kind has a module of its own."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Literal, Self

from pydantic import Field
from pydantic.fields import FieldInfo
from typing_extensions import override

from mixedmode.config.document import Path
from mixedmode.config.fields import (
    DurationMs,
    Flag,
    InOrder,
    Lines,
    OptionalDurationMs,
    OutputName,
    PositiveDurationMs,
    Section,
    Text,
    key_of,
)
from mixedmode.config.names import repeated
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.starts import StartPoint
from mixedmode.config.used_places import UsedPlace

_DAY_MS = 86_400_000


class WatermarkSpec(Section):
    """The way a source's watermark follows the event times of its records."""

    out_of_orderness_ms: DurationMs = Field(
        default=0,
        description="how far the watermark stays behind the newest event time, so how late a record may come",
    )
    idle_timeout_ms: PositiveDurationMs | None = Field(
        default=None,
        description="a source, or partition, without a record for this long no longer holds the watermark back; "
        "not given: it holds it back for ever",
    )
    max_ahead_ms: OptionalDurationMs = Field(
        default=_DAY_MS,
        description="a record whose event time is further ahead of the clock than this does not move the watermark; "
        "none: every record moves it",
    )
    partition_column: Text | None = Field(
        default=None,
        description="the column that says which partition a record comes from; each has a watermark of its own, and "
        "the smallest counts",
    )


class SourceSpec(InOrder):
    """A source that the job reads under one name. The base of every kind.

    may_be: the sides that it may be of a source with a history and a live continuation.
    dimension_settings: the fields that it may have as a dimension, but `format`; empty if it can be none, because its
    records have no versions. is_dimension_only: a job cannot read it as a source.
    """

    may_be: ClassVar[frozenset[str]] = frozenset({"history", "live"})
    dimension_settings: ClassVar[frozenset[str]] = frozenset()
    is_dimension_only: ClassVar[bool] = False

    computed_columns: Mapping[OutputName, Lines] = Field(
        default={},
        description="columns made of those of a record by SQL, by name, such as at: timestamp_millis(ts)",
    )
    event_time: Text | None = Field(default=None, description="the column that says when a record happened")
    watermark: WatermarkSpec = Field(default=WatermarkSpec(), description="how event time moves; needs event-time")
    bounded: Flag = Field(default=False, description="true: what is there at the start is all there will ever be")

    @classmethod
    @override
    def fields_in_order(cls) -> dict[str, FieldInfo]:
        """Return the fields of the kind, then those of every source."""
        shared = SourceSpec.model_fields
        own = {name: field for name, field in cls.model_fields.items() if name not in shared}
        return {**own, **{name: cls.model_fields[name] for name in shared}}

    @property
    @abstractmethod
    def place(self) -> str:
        """The kind and place of the source, for a person: `parquet data/flights`. Without secrets."""

    @property
    def used_places(self) -> tuple[UsedPlace, ...]:
        """The places that it reads, so that no output is among them. By default what `place` names."""
        return (UsedPlace((), self.place, names=frozenset({self.place})),)

    @property
    def limits_per_epoch(self) -> Mapping[str, int]:
        """The limits of one epoch where a backlog uses the streaming strategy, as fields of `sources.Admission`."""
        return {}

    def may_have_read(self, kind: Literal["files", "topics"], names: Collection[str]) -> bool:
        """Return whether a query of Spark that has read these files (their URLs) or topics may read this source."""
        del kind, names
        return False

    @property
    def outputs(self) -> Mapping[Path, SinkSpec]:
        """{path below the source: sink} of the source's own outputs, for records that it cannot read."""
        return {}

    @property
    def inner_sources(self) -> "Mapping[Path, SourceSpec]":
        """{path below the source: source} of the sources that it is made of."""
        return {}

    @property
    def declaring(self) -> "SourceSpec":
        """The source whose columns are declared: itself, or one of its inner sources."""
        return self

    @property
    def declared_schema(self) -> str | None:
        """The columns as Spark DDL, if the settings say them; None if only the place knows them."""
        return None

    def dimension_findings(self) -> Iterator[tuple[Path, str]]:
        """Yield what is wrong with the source as a dimension, beside the settings that a dimension cannot have."""
        yield from ()

    def seam_findings(self, offsets: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[Path, str]]:  # noqa: ARG002
        """Yield why a seam cannot be at these offsets, {topic: {partition: offset}}, if this source is its live side.

        A path is below the source that has both sides. Only a source with offsets can begin at offsets.
        """
        text = f" are offsets of Kafka, and the live side has none. Give a timestamp. live={self.place}"
        yield ("seam", "offsets"), text

    def beginning_at(self, offsets: Mapping[str, Mapping[int, int]]) -> Self:
        """Return the same source, read from these offsets on. Called if `seam_findings` has none."""
        raise AssertionError(self.place, offsets)

    def starting_at(self, point: StartPoint) -> "Self | str":
        """Return the same source, which a job without a checkpoint reads from a point on; or a sentence why it cannot.

        By default a source is read from its beginning only.
        """
        if point.at == "earliest":
            return self
        return (
            "this source has no position in time, so it can only be read from its beginning. Use --to earliest, and "
            "leave earlier records out by a condition in a sql step, such as `where ordered_at >= '...'`."
        )

    def cannot_read_again(self, end: datetime) -> str | None:  # noqa: ARG002 - the same for all records here
        """Return why the records with event times before `end` may not all be there any more, as a clause; else None.

        By default a source keeps its records.
        """
        return None

    def _findings(self) -> Iterator[tuple[Path, str]]:
        for name, owner in repeated(self.computed_columns, {}):
            yield ("computed-columns", name), f": {owner} has this name already (case does not count). Choose another."
        if self.event_time is None:
            for name in _changed(self.watermark):
                text = " has no effect without event-time. Name the column in event-time, or remove it."
                yield ("watermark", key_of(name)), text


def dead_letter_findings(undecodable: str, dead_letter: SinkSpec | None) -> Iterator[tuple[Path, str]]:
    """Yield the findings about the two settings that say what becomes of records that cannot be decoded."""
    if undecodable == "dead-letter" and dead_letter is None:
        text = " is missing: with undecodable: dead-letter, such records need a place. Add format and path."
        yield ("dead-letter",), text
    if undecodable != "dead-letter" and dead_letter is not None:
        text = f" has no effect unless undecodable is dead-letter. Remove one. undecodable={undecodable}"
        yield ("dead-letter",), text


def _changed(watermark: WatermarkSpec) -> Iterator[str]:
    defaults: Mapping[str, object] = dict(WatermarkSpec())
    yield from (name for name, value in watermark if value != defaults[name])
