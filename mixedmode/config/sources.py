"""What a job reads, and how event time moves in it."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from mixedmode.config.document import Path
from mixedmode.config.fields import (
    Count,
    DurationMs,
    Flag,
    OptionalDurationMs,
    Options,
    PositiveBytes,
    PositiveDurationMs,
    Section,
    Text,
    key_of,
)

_DAY_MS = 86_400_000


class WatermarkSpec(Section):
    """How the watermark of a source follows the event times of its records."""

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


class SourceSpec(Section):
    """Files that the job reads."""

    format: Literal["parquet", "json", "csv"] = Field(description="parquet, json or csv")
    path: Text = Field(description="a directory or glob, local or a URL")
    schema_ddl: Text | None = Field(
        default=None, description="columns as Spark DDL, such as date timestamp, origin string; parquet brings its own"
    )
    event_time: Text | None = Field(default=None, description="the column that says when a record happened")
    watermark: WatermarkSpec = Field(default=WatermarkSpec(), description="how event time moves; needs event-time")
    bounded: Flag = Field(default=False, description="true: what is there at the start is all there will ever be")
    options: Options = Field(default={}, description="options for Spark's reader of this format, such as header")
    max_files_per_epoch: Count | None = Field(
        default=None, description="most files in one epoch when a backlog takes the streaming path; not given: no limit"
    )
    max_bytes_per_epoch: PositiveBytes | None = Field(
        default=None, description="most bytes in one epoch when a backlog takes the streaming path; not given: no limit"
    )

    def _findings(self) -> Iterator[tuple[Path, str]]:
        if self.schema_ddl is None and self.format != "parquet":
            text = (
                " is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                f'"date timestamp, origin string". format={self.format}'
            )
            yield ("schema",), text
        if self.event_time is None:
            for name in _changed(self.watermark):
                text = " has no effect without event-time. Name the column in event-time, or remove it."
                yield ("watermark", key_of(name)), text
        if self.max_files_per_epoch is not None and self.max_bytes_per_epoch is not None:
            text = " and max-files-per-epoch are both given, and Spark takes one of them. Remove one."
            yield ("max-bytes-per-epoch",), text


def _changed(watermark: WatermarkSpec) -> Iterator[str]:
    defaults: Mapping[str, object] = dict(WatermarkSpec())
    yield from (name for name, value in watermark if value != defaults[name])
