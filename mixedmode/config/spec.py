"""What a job is: frozen, validated sections, with every setting and every default in this one file.

A field's key in YAML is its name in kebab case without the unit (`out_of_orderness_ms` is `out-of-orderness`). A
section is built from a mapping of such keys; `load.py` turns what it refuses into messages with file and line.
A spec holds what was asked for, not what follows from it: `modes.resolve_mode` decides how a job runs.

Invariants (tests/config/test_spec.py):
  I1  there is no key beyond these, and every one of them is described
  I2  JobSpec.model_validate(spec.as_document()) == spec
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from mixedmode.config.document import Path
from mixedmode.config.fields import (
    Call,
    Columns,
    Count,
    DurationMs,
    Flag,
    Options,
    OutputName,
    PositiveBytes,
    PositiveDurationMs,
    Section,
    SparkSettings,
    TableName,
    Text,
    refusal,
)
from mixedmode.config.spelling import nearest
from mixedmode.config.values import format_duration_ms

MAX_PARALLELISM_LIMIT = (
    2**15
)  # key groups; the number of one is stored in 16 bits; the same number as in keys/groups.py
SPARK_DEFAULTS = {"spark.master": "local[*]"}  # the embedded Spark, on all cores

_KEYED_STEP_KEYS = ("key-by", "aggregate")


class RuntimeMode(StrEnum):
    """How a job meets its history and what comes after it."""

    BATCH = "batch"
    STREAMING = "streaming"
    MIXED = "mixed"
    AUTOMATIC = "automatic"


class CheckpointingSpec(Section):
    """When the job commits once it is live, and where."""

    interval_ms: PositiveDurationMs = Field(
        default=1_000,
        description="time between two live epochs; each ends in one commit, so 1s is about 86,400 manifests a day, "
        "and a longer interval gives later results but fewer, larger files",
    )
    dir: Text | None = Field(
        default=None, description="folder or URL for state and manifests; starting again with the same one resumes"
    )
    num_retained: Count = Field(
        default=10,
        description="how many checkpoints are kept; each keeps its own list of state files, so more of them reach "
        "further back, and hold on longer to files that were merged since",
    )
    interval_during_backlog_ms: DurationMs | None = Field(
        default=None, description="another spelling of execution.interval-during-backlog, which takes its value"
    )


class ExecutionBacklogSpec(Section):
    """How the backlog runs."""

    parallelism: Count | None = Field(default=None, description="subtasks in backlog; not given: as many as live")


class ExecutionSpec(Section):
    """How the job runs."""

    runtime_mode: RuntimeMode = Field(
        default=RuntimeMode.AUTOMATIC,
        description="batch, streaming, mixed, or automatic (batch if every source is bounded, else mixed)",
    )
    interval_during_backlog_ms: DurationMs | None = Field(
        default=None,
        description="time between two commits in backlog; 0: none, so the backlog is sorted as a whole and is the "
        "fastest, but a failure in it begins it again; not given: 0 if mixed, the checkpointing interval if streaming",
    )
    checkpointing: CheckpointingSpec = Field(default=CheckpointingSpec(), description="commits of the live job")
    backlog: ExecutionBacklogSpec = Field(default=ExecutionBacklogSpec(), description="how the backlog runs")

    @model_validator(mode="after")
    def _one_interval_during_backlog(self) -> Self:
        """Both spellings end in one field, so that a reader of the spec cannot ask the wrong one."""
        here_ms, there_ms = self.interval_during_backlog_ms, self.checkpointing.interval_during_backlog_ms
        if there_ms is None:
            return self
        if here_ms is not None and here_ms != there_ms:
            text = (
                " is given under execution.checkpointing too, with another value. Keep one of the two. "
                f"here={format_duration_ms(here_ms)}, there={format_duration_ms(there_ms)}"
            )
            raise refusal((("interval-during-backlog",), text))
        bare = self.checkpointing.model_copy(update={"interval_during_backlog_ms": None})
        object.__setattr__(self, "checkpointing", bare)  # still being built, so nobody has seen the other value
        object.__setattr__(self, "interval_during_backlog_ms", there_ms)
        return self


class PipelineBacklogSpec(Section):
    """When a live job is in backlog again."""

    watermark_lag_threshold_ms: PositiveDurationMs | None = Field(
        default=None,
        description="an epoch whose watermark lags more than this takes the sorted path; not given: none does",
    )


class PipelineSpec(Section):
    """What holds for every operator of the job."""

    max_parallelism: Annotated[Count, Field(le=MAX_PARALLELISM_LIMIT)] = Field(
        default=128,
        description="number of key groups, fixed for the life of the job's state: the most subtasks it can ever use",
    )
    backlog: PipelineBacklogSpec = Field(default=PipelineBacklogSpec(), description="when it is in backlog again")


class StateBacklogSpec(Section):
    """State while in backlog."""

    sort_memory_bytes: PositiveBytes = Field(
        default=256 * 1024**2,
        description="memory of one subtask's sorter; what exceeds it is sorted on disk, which costs a second pass",
    )


class StateSpec(Section):
    """How state is kept."""

    backlog: StateBacklogSpec = Field(default=StateBacklogSpec(), description="state while in backlog")


class WatermarkSpec(Section):
    """How far behind the newest event time the watermark stays."""

    out_of_orderness_ms: DurationMs = Field(
        default=0,
        description="how far the watermark stays behind the newest event time, so how late a record may come",
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

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        findings: list[tuple[Path, str]] = []
        if self.schema_ddl is None and self.format != "parquet":
            text = (
                " is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                f'"date timestamp, origin string". format={self.format}'
            )
            findings.append((("schema",), text))
        if self.event_time is None and self.watermark.out_of_orderness_ms:
            text = " has no effect without event-time. Name the column in event-time, or remove it."
            findings.append((("watermark", "out-of-orderness"), text))
        if self.max_files_per_epoch is not None and self.max_bytes_per_epoch is not None:
            text = " and max-files-per-epoch are both given, and Spark takes one of them. Remove one."
            findings.append((("max-bytes-per-epoch",), text))
        if findings:
            raise refusal(*findings)
        return self


class SqlStep(Section):
    """Any stateless Spark SQL over the sources, or over what the step before gives."""

    name: TableName | None = Field(default=None, description="a name for the step")
    sql: Text = Field(description="a SELECT")


class KeyedAggregateStep(Section):
    """One row per key, kept up to date."""

    name: TableName | None = Field(default=None, description="a name for the step")
    key_by: Columns = Field(description="one column or several", min_length=1)
    aggregate: Mapping[OutputName, Call] = Field(description="output columns, such as flights: count(*)", min_length=1)

    @model_validator(mode="after")
    def _columns_are_distinct(self) -> Self:
        findings: list[tuple[Path, str]] = [
            (("key-by",), f" names a column twice. Remove one. found={column}")
            for column, _ in _repeated(self.key_by, {})
        ]
        for output, owner in _repeated(self.aggregate, dict.fromkeys(self.key_by, "a key column")):
            text = f": {owner} has this name already (case does not count). Choose another."
            findings.append((("aggregate", output), text))
        if findings:
            raise refusal(*findings)
        return self


def _repeated(names: Iterable[str], taken: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(name, what has it already) of each name that is not the first of its kind. Spark ignores the case of names."""
    owners = {name.lower(): owner for name, owner in taken.items()}
    for name in names:
        if name.lower() in owners:
            yield name, owners[name.lower()]
        owners[name.lower()] = "another one"


class SinkSpec(Section):
    """Where the result goes."""

    format: Literal["parquet", "json", "console"] = Field(description="parquet, json or console")
    path: Text | None = Field(default=None, description="the directory or URL to write files in")

    @model_validator(mode="after")
    def _files_have_a_path(self) -> Self:
        if self.format == "console" and self.path is not None:
            raise refusal((("path",), " has no meaning for the console. Remove it, or choose a format of files."))
        if self.format != "console" and self.path is None:
            raise refusal((("path",), f" is missing: files need a directory. Add it. format={self.format}"))
        return self


def _step_kind(step: Any) -> str | None:
    """Which step is meant; a misspelled key still tells, so that the message can be about that key."""
    if isinstance(step, Section):
        return "sql" if isinstance(step, SqlStep) else "key-by"
    if not isinstance(step, Mapping):
        return None
    keys = {nearest(str(key), ("sql", *_KEYED_STEP_KEYS)) for key in step} | set(step)
    return "sql" if "sql" in keys else "key-by" if keys & set(_KEYED_STEP_KEYS) else None


Step = Annotated[
    Annotated[SqlStep, Tag("sql")] | Annotated[KeyedAggregateStep, Tag("key-by")], Discriminator(_step_kind)
]


class JobSettings(Section):
    """All of a job but what it computes and where that goes."""

    name: Text = Field(description="the job's name, in messages and in Spark's user interface")
    execution: ExecutionSpec = Field(default=ExecutionSpec(), description="how the job runs")
    parallelism: Count | None = Field(default=None, description="subtasks of a keyed step; not given: as many as cores")
    pipeline: PipelineSpec = Field(default=PipelineSpec(), description="what holds for every operator")
    state: StateSpec = Field(default=StateSpec(), description="how state is kept")
    spark: SparkSettings = Field(
        default=SPARK_DEFAULTS, description="any configuration of Spark, with or without the leading spark."
    )
    sources: Mapping[TableName, SourceSpec] = Field(description="what the job reads, by name", min_length=1)

    @property
    def chosen_mode(self) -> RuntimeMode:
        """The mode that was asked for, with automatic decided: batch if every source is bounded, else mixed."""
        if self.execution.runtime_mode is not RuntimeMode.AUTOMATIC:
            return self.execution.runtime_mode
        return RuntimeMode.BATCH if all(source.bounded for source in self.sources.values()) else RuntimeMode.MIXED

    @field_validator("spark", mode="after")
    @classmethod
    def _with_defaults(cls, spark: Mapping[str, str]) -> Mapping[str, str]:
        return {**SPARK_DEFAULTS, **spark}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        findings = [*self._parallelism_findings(), *self._checkpoint_findings(), *self._source_findings()]
        if findings:
            raise refusal(*findings)
        return self

    def _parallelism_findings(self) -> Iterator[tuple[Path, str]]:
        settings: dict[Path, int | None] = {
            ("parallelism",): self.parallelism,
            ("execution", "backlog", "parallelism"): self.execution.backlog.parallelism,
        }
        limit = self.pipeline.max_parallelism
        for path, parallelism in settings.items():
            if parallelism is not None and parallelism > limit:
                text = (
                    " is more than the number of key groups, so some subtasks would never receive data. "
                    f"Lower it, or raise max-parallelism. found={parallelism}, max-parallelism={limit}"
                )
                yield path, text

    def _checkpoint_findings(self) -> Iterator[tuple[Path, str]]:
        if self.chosen_mode is not RuntimeMode.BATCH and self.execution.checkpointing.dir is None:
            text = (
                " is missing: only batch mode runs without a place for its state. Add a folder or a URL. "
                f"mode={self.chosen_mode}"
            )
            yield ("execution", "checkpointing", "dir"), text

    def _source_findings(self) -> Iterator[tuple[Path, str]]:
        for name, owner in _repeated(self.sources, {}):
            yield ("sources", name), f": {owner} has this name already (case does not count). Choose another."


class JobSpec(JobSettings):
    """A whole job. Its paths are absolute or URLs once `load.py` has been over it."""

    steps: tuple[Step, ...] = Field(description="what it computes; each reads what the one before gives", min_length=1)
    sink: SinkSpec = Field(description="where the result goes")

    def as_document(self) -> dict[str, Any]:
        """The job as it is written in YAML: what differs from the defaults, durations and sizes as text."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @model_validator(mode="after")
    def _steps_have_one_input_and_one_name(self) -> Self:
        findings = list(self._step_findings())
        if findings:
            raise refusal(*findings)
        return self

    def _step_findings(self) -> Iterator[tuple[Path, str]]:
        if isinstance(self.steps[0], KeyedAggregateStep) and len(self.sources) > 1:
            names = ", ".join(self.sources)
            text = f": a keyed step reads one input. Put a sql step before it to say which source. sources={names}"
            yield ("steps", 0), text
        owners = dict.fromkeys(self.sources, "a source")
        for index, step in enumerate(self.steps):
            for name, owner in _repeated([step.name] if step.name else [], owners):
                text = f": {owner} has this name already (case does not count). Choose another. found={name}"
                yield ("steps", index, "name"), text
            if step.name is not None:
                owners[step.name] = "another step"
