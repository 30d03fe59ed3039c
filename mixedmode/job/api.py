"""A job in Python: an immutable builder of the same frozen spec that a job file is read into.

    flights = Source.parquet("data/flights", event_time="date", out_of_orderness="1h")
    job = (
        Job("airport-delays", sources={"flights": flights}, checkpoint_dir="./run/checkpoints")
        .sql("SELECT * FROM flights WHERE distance > 100")
        .key_by("origin")
        .aggregate(flights="count(*)", worst="max(delay)")
        .write(Sink.parquet("./run/out"))
    )

Every call returns a new value and checks its arguments, so an error is raised at the line with the mistake.
An argument that is left out has the default of the job file; mixedmode/config is the only place with defaults.
Relative paths are resolved against the current directory.

Invariants (tests/job/test_api.py):
  I1  Job.from_file of job.to_yaml() has the same spec
  I2  no call changes the job it is called on
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Literal, Self, Unpack

from mixedmode.config.arguments import of_type, place_of
from mixedmode.config.document import path_text
from mixedmode.config.dump import job_spec_to_yaml
from mixedmode.config.graph import MAIN
from mixedmode.config.load import LoadedJob, check_places, checked_section, load_job, resolve_paths, resolve_step
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.config.spec import JobSettings, JobSpec
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.steps import MapStep, SqlStep, Step
from mixedmode.connectors.calls import (
    FileName,
    PlainValue,
    given_arguments,
    nested,
    source_of,
)
from mixedmode.errors import InvalidJobError
from mixedmode.job.arguments import (
    JobArguments,
    argument,
    dimension_argument,
    job_settings,
)
from mixedmode.job.broadcasts import Broadcast
from mixedmode.job.keyed import AllRows, KeyedJob, WindowArguments, WindowedJob
from mixedmode.job.operations import JobOperations
from mixedmode.job.parts import fields_of, in_places, of_output, settings_of
from mixedmode.job.streams import Stream, placed_stream
from mixedmode.operators.classes import class_reference


@dataclass(frozen=True, slots=True, init=False)
class Job(AllRows, JobOperations):
    """A job, complete once it has a step and `write` has been called.

    Each argument is a setting of the job file under a shorter name; docs/job-file.md has the details and defaults.
    All arguments but `name` are passed by keyword, and all but `name` and `sources` are optional.

    name: the job's name, in messages and in Spark's user interface.
    sources: {name for SQL: source}; see Source.
    mode: batch, streaming, mixed or automatic.
    parallelism: number of subtasks of a keyed step.
    checkpoint_dir: folder or URL for state and manifests. Every mode but batch needs it.
    checkpoint_interval: time between two live epochs; each ends in one commit.
    checkpoints_retained: number of checkpoints to keep.
    checkpoint_verification: how a start checks the newest checkpoint, by checksums or by sizes.
    checkpoint_access: who can enter the local folder of the checkpoints: the owner, or whom the umask admits.
    checkpoint_timeout: limit on the time of a live epoch. An epoch that exceeds it counts as failed.
    tolerable_failed_checkpoints: number of failures in a row after which an epoch is still run again.
    interval_during_backlog: time between two commits in backlog; 0: one commit, at the end of the backlog.
    max_parallelism: number of key groups, so the most subtasks; fixed for the life of the job's state.
    backlog_parallelism: number of subtasks in backlog.
    end_of_key_watermark: the watermark of a key after its last record in backlog. `greatest` is the greatest watermark
        of the backlog; `max` fires every window and timer in the backlog.
    backlog_emit: `final` emits one row per key or window of the backlog; `all` emits every running value, too.
    autoscaler: lets a live job choose its parallelism; see AutoscalerArguments.
    watermark_lag_threshold: a live epoch whose watermark lags more than this uses the sorted strategy.
    sort_memory: memory of a task, beside its interpreter.
    functions: {name for SQL: function of Python, or its name as `package.module:function`}; see docs/functions.md.
    spark: configuration of Spark, with or without the leading `spark.`.

    Raises InvalidJobError that names every wrong argument.
    """

    settings: JobSettings
    steps: tuple[Step, ...]
    #: {name: sink} of the outputs of whole steps; that of `write` is ""
    results: Mapping[str, SinkSpec]
    #: the streams whose steps the job has, with the names of their last steps
    streams: tuple[tuple[Stream, str], ...] = field(compare=False, repr=False)
    #: the places of the settings in their file, for a job from a file
    origin: LoadedJob | None = field(compare=False, repr=False)

    def __init__(self, name: str, *, sources: Mapping[str, SourceSpec], **arguments: Unpack[JobArguments]) -> None:
        values = {"name": name, "sources": sources, **job_settings(arguments, "Job")}
        settings = checked_section(JobSettings, values, place="Job", name=argument)
        self._fill(resolve_paths(settings, FilePath()), (), {}, (), None)

    @classmethod
    def from_file(cls, path: FileName, overrides: Sequence[str] = ()) -> Self:
        """Return the job in a file, with `key=value` overrides that replace what the file says.

        Raises InvalidJobError with every mistake that can be found without Spark.
        """
        of_type(overrides, list | tuple, "Job.from_file: overrides", "a list, such as ['parallelism=4']")
        loaded = load_job(place_of(path, "Job.from_file: path"), overrides)
        return cls._of(settings_of(loaded.spec), loaded.spec.steps, loaded.spec.results, (), loaded)

    @classmethod
    def from_stream(cls, stream: Any, name: str, **arguments: Unpack[JobArguments]) -> Self:
        """Return the job that computes a streaming DataFrame of PySpark, such as one of `spark.readStream`.

        stream: the DataFrame, before `writeStream`. Its source has the name `records` in the job; those of a join or a
        union are `records_1`, `records_2` and so on. A table with which it is joined is the dimension `table_1`.
        arguments: those of Job.

        Raises InvalidJobError for a DataFrame that a job cannot take over as it is. docs/from-flink-and-spark.md has
        the list.
        """
        from mixedmode.driver.from_stream import read_stream  # noqa: PLC0415 - Spark is loaded only to plan

        known = given_arguments(arguments, JobArguments, "Job.from_stream")
        spark = of_type(known.get("spark", {}), Mapping, "Job.from_stream: spark", "a dictionary")
        found = read_stream(stream, spark)
        sources, tables = (
            {source: source_of(one.format, one.arguments, call="Job.from_stream") for source, one in several.items()}
            for several in (found.sources, found.tables)
        )
        arguments["spark"] = {**spark, **found.spark}
        job = cls(name, sources=sources, **arguments)
        for table, one in tables.items():
            job = job.dimension(table, one)
        for step in found.steps:
            job = job.with_step(step)
        return job

    @property
    def spec(self) -> JobSpec:
        """Return the whole job, after a check of all parts together.

        Raises InvalidJobError if the job is not valid, or has no step or no sink yet.
        """
        if not self.steps:
            msg = f"the job has no step yet. Call .sql(...) or .key_by(...).aggregate(...). name={self.settings.name}"
            raise InvalidJobError(msg)
        if not self.results:
            msg = f"the job has no sink yet. Call .write(Sink.parquet(path)), for example. name={self.settings.name}"
            raise InvalidJobError(msg)
        sinks = {"sink": self.results[MAIN]} if MAIN in self.results else {"outputs": self.results}
        values = {**fields_of(self.settings), "steps": self.steps, **sinks}
        spec = checked_section(JobSpec, values, place="Job", name=argument)
        check_places(spec, place="Job", name=argument)
        return spec

    def dimension(self, name: str, table: SourceSpec) -> Self:
        """Return the same job with one more bounded table, which SQL joins by its name.

        table: a Source with the settings of a table that each epoch reads whole. It replaces a dimension of this name.
        docs/dimensions.md is the guide.
        """
        of_type(name, str, "Job.dimension: name", "text")
        of_type(table, SourceSpec, "Job.dimension: table", "one of `Source`, such as Source.parquet(path)")
        tables = {**self.settings.dimensions, name: table}
        values = {**fields_of(self.settings), "dimensions": tables}
        settings = checked_section(JobSettings, values, place="Job.dimension", name=dimension_argument)
        return self._of(resolve_paths(settings, FilePath()), self.steps, self.results, self.streams, self.origin)

    def sql(self, sql: str, *, name: str | None = None, clock: Literal["refused", "allowed"] = "refused") -> Self:
        """Add a step of stateless Spark SQL over the sources, or over the rows that the previous step emits.

        sql: a SELECT; it may join the dimensions of the job. name: the name of the step.
        clock: with `allowed`, the SQL may ask for the current time; the execution modes may then emit different rows.
        """
        step = checked_section(SqlStep, {"sql": sql, "name": name, "clock": clock}, place="Job.sql", name=argument)
        return self.with_step(step)

    def map(
        self,
        function: str | type,
        *,
        output: str,
        args: Mapping[str, PlainValue] | None = None,
        name: str | None = None,
        parallelism: int | None = None,
        folder: FileName | None = None,
    ) -> Self:
        """Add a step with a map function, which makes output rows of input rows. It must precede the first keyed step.

        function: a class, or its name as `package.module:Class`.
        output: columns of the result, as Spark DDL.
        args: arguments for the class, by name.
        name: the name of the step. parallelism: number of subtasks of this step.
        folder: the folder that the module is imported from.
            By default, a class has the folder that it came from, and a name has the current folder.

        docs/map-functions.md is the guide.
        """
        reference, home = class_reference(function, place="Job.map")
        settings = {
            "name": name,
            "map": reference,
            "folder": home if folder is None else folder,
            "args": args,
            "output": output,
            "parallelism": parallelism,
        }
        values = nested({(key,): value for key, value in settings.items()})
        step = checked_section(MapStep, values, place="Job.map", name=argument)
        return self.with_step(resolve_step(step, FilePath()))

    def key_by(self, *columns: str, name: str | None = None, parallelism: int | None = None) -> KeyedJob[Self]:
        """Group the rows by key. A method of the result completes the step, such as `.aggregate(...)`.

        columns: names of columns, or expressions with a name, such as "date(at) AS day". Each is an argument.
        name: the name of the step. parallelism: subtasks of this step.
        """
        return KeyedJob.checked(self, columns, name, parallelism)

    def window(self, *, name: str | None = None, **window: Unpack[WindowArguments]) -> WindowedJob[Self]:
        """Group all rows, without a key, by window. Call `.aggregate(...)` on the result to complete the step.

        name: the name of the step. See WindowArguments for the other arguments.
        """
        return WindowedJob.checked(self, {"name": name}, window)

    def with_step(self, step: Step, broadcast: Sequence[Broadcast[Any]] = ()) -> Self:
        """Return the same job with one more step; the steps of streams, and those that read streams, are refused."""
        if self.streams or broadcast:
            why = "the step reads streams" if broadcast else "the job has outputs of streams"
            what = "Call the method on the stream whose rows the step reads"
            msg = f"{why}, so its steps belong to streams. {what}. name={self.settings.name}"
            raise InvalidJobError(msg)
        return self._of(self.settings, (*self.steps, step), self.results, (), self.origin)

    def write(self, sink: SinkSpec, *, key: str | Sequence[str] | None = None) -> Self:
        """Return the same job with this sink for the rows of the last step. It replaces an earlier one.

        key: the columns by which the output finds a row again; by default, the key of the rows.
        """
        sinks = {MAIN: of_output(sink, None, key, call="Job.write")}
        return self._of(self.settings, self.steps, sinks, (), self.origin)

    def source(self, name: str) -> Stream:
        """Return the rows of a source, to which steps are added; see `output`. A stream may be read several times."""
        known = list(self.settings.sources)
        of_type(name, str, "Job.source: name", f"the name of a source, and those here are {', '.join(known)}")
        if name not in known:
            near = did_you_mean(name, known)
            msg = f"Job.source: there is no source {name}.{near} Sources here: {', '.join(known)}."
            raise InvalidJobError(msg)
        return Stream.of_source(name)

    def output(self, name: str, stream: Stream, sink: SinkSpec, *, key: str | Sequence[str] | None = None) -> Self:
        """Return the same job with one more output, which gets the rows of a stream. docs/graphs.md has an example.

        name: letters, digits and _; it replaces an output of the same name. A job has either such outputs, or the steps
        of its own methods and `write`. key: see `write`.
        """
        if self.steps and not self.streams:
            msg = (
                "Job.output: the steps of this job are a chain, whose rows `write` sends to a sink. Begin streams with "
                f"job.source(...) on a job without steps. name={self.settings.name}"
            )
            raise InvalidJobError(msg)
        of_type(name, str, "Job.output: name", "text")
        placed = placed_stream(stream, self.steps, self.streams)
        sinks = {**self.results, name: of_output(sink, placed.name, key, call="Job.output")}
        return self._of(self.settings, placed.steps, sinks, placed.streams, self.origin)

    def placed(self, settings: JobSettings, steps: tuple[Step, ...], sinks: Mapping[str, SinkSpec]) -> Self:
        """Return the same job with other settings, and with its steps and outputs in other places."""
        return self._of(settings, steps, in_places(self.results, sinks), self.streams, None)

    def to_yaml(self) -> str:
        """Return the job as the text of a job file, with absolute paths."""
        return job_spec_to_yaml(self.spec)

    def where(self, *path: str | int) -> str:
        """Return the start of a message about a setting.

        It is `job.yaml:17: steps[0].sql` for a job from a file, and `steps[0].sql` for a job from Python.
        """
        return path_text(path) if self.origin is None else self.origin.where(*path)

    def _fill(
        self,
        settings: JobSettings,
        steps: tuple[Step, ...],
        results: Mapping[str, SinkSpec],
        streams: tuple[tuple[Stream, str], ...],
        origin: LoadedJob | None,
    ) -> None:
        values = {"settings": settings, "steps": steps, "results": results, "streams": streams, "origin": origin}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # frozen from here on

    @classmethod
    def _of(
        cls,
        settings: JobSettings,
        steps: tuple[Step, ...],
        results: Mapping[str, SinkSpec],
        streams: tuple[tuple[Stream, str], ...],
        origin: LoadedJob | None,
    ) -> Self:
        job = cls.__new__(cls)
        job._fill(settings, steps, results, streams, origin)  # noqa: SLF001  # a class's own
        return job
