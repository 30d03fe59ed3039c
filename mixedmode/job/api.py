"""A job in Python: an immutable builder over the same frozen spec that a job file gives.

    flights = Source.parquet("data/flights", event_time="date", out_of_orderness="1h")
    job = (
        Job("airport-delays", sources={"flights": flights}, checkpoint_dir="./run/checkpoints")
        .sql("SELECT * FROM flights WHERE distance > 100")
        .key_by("origin")
        .aggregate(flights="count(*)", worst="max(delay)")
        .write(Sink.parquet("./run/out"))
    )

Every call returns a new value and checks what it was given, so that a mistake shows at the line that makes it. An
argument that is left out has the default of the job file, which stands in mixedmode/config and nowhere else.
Relative paths are taken from the current directory.

Invariants (tests/job/test_api.py):
  I1  Job.from_yaml of job.to_yaml() has the same spec
  I2  no call changes the job it is called on
"""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from mixedmode.config.document import path_text
from mixedmode.config.dump import job_spec_to_yaml
from mixedmode.config.fields import key_of
from mixedmode.config.load import LoadedJob, check_places, checked_section, load_job, resolve_paths, resolve_step
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.config.spec import JobSettings, JobSpec
from mixedmode.config.steps import MapStep, SqlStep, Step
from mixedmode.errors import InvalidJobError
from mixedmode.job.arguments import (
    AutoscalerArguments,
    Duration,
    FileName,
    Mode,
    PlainValue,
    Size,
    SparkValue,
    argument,
    autoscaler_settings,
    nested,
)
from mixedmode.job.keyed import KeyedJob, WindowArguments, WindowedJob, class_reference

if TYPE_CHECKING:
    from mixedmode.driver.events import Observer


@dataclass(frozen=True, slots=True, init=False)
class Job:
    """A job, or the beginning of one until `write` has been called."""

    settings: JobSettings
    steps: tuple[Step, ...]
    sink: SinkSpec | None
    #: where the settings stand, when they come from a file
    origin: LoadedJob | None = field(compare=False, repr=False)

    def __init__(  # noqa: PLR0913  # one argument per setting, by keyword
        self,
        name: str,
        *,
        sources: Mapping[str, SourceSpec],
        mode: Mode | None = None,
        parallelism: int | None = None,
        checkpoint_dir: FileName | None = None,
        checkpoint_interval: Duration | None = None,
        checkpoints_retained: int | None = None,
        checkpoint_verification: Literal["checksums", "sizes"] | None = None,
        checkpoint_timeout: Duration | None = None,
        tolerable_failed_checkpoints: int | None = None,
        interval_during_backlog: Duration | None = None,
        max_parallelism: int | None = None,
        backlog_parallelism: int | None = None,
        end_of_key_watermark: Literal["greatest", "max"] | None = None,
        backlog_emit: Literal["final", "all"] | None = None,
        autoscaler: AutoscalerArguments | None = None,
        watermark_lag_threshold: Duration | None = None,
        sort_memory: Size | None = None,
        spark: Mapping[str, SparkValue] | None = None,
    ) -> None:
        values = {
            ("name",): name,
            ("sources",): sources,
            ("execution", "runtime-mode"): mode,
            ("parallelism",): parallelism,
            ("execution", "checkpointing", "dir"): checkpoint_dir,
            ("execution", "checkpointing", "interval"): checkpoint_interval,
            ("execution", "checkpointing", "num-retained"): checkpoints_retained,
            ("execution", "checkpointing", "verify"): checkpoint_verification,
            ("execution", "checkpointing", "timeout"): checkpoint_timeout,
            ("execution", "checkpointing", "tolerable-failed-checkpoints"): tolerable_failed_checkpoints,
            ("execution", "interval-during-backlog"): interval_during_backlog,
            ("pipeline", "max-parallelism"): max_parallelism,
            ("execution", "backlog", "parallelism"): backlog_parallelism,
            ("execution", "backlog", "end-of-key-watermark"): end_of_key_watermark,
            ("execution", "backlog", "emit"): backlog_emit,
            ("execution", "autoscaler"): autoscaler_settings(autoscaler),
            ("pipeline", "backlog", "watermark-lag-threshold"): watermark_lag_threshold,
            ("state", "backlog", "sort-memory"): sort_memory,
            ("spark",): spark,
        }
        settings = checked_section(JobSettings, nested(values), place="Job", name=argument)
        self._fill(resolve_paths(settings, FilePath()), (), None, None)

    @classmethod
    def from_yaml(cls, path: FileName, overrides: Sequence[str] = ()) -> Self:
        """The job in a file, with `key=value` overrides put over it. Raises InvalidJobError with all that is wrong."""
        loaded = load_job(path, overrides)
        return cls._of(_settings_of(loaded.spec), loaded.spec.steps, loaded.spec.sink, loaded)

    @property
    def spec(self) -> JobSpec:
        """The whole job, checked as a whole.  Raises InvalidJobError when it has no step or no sink yet."""
        if not self.steps:
            msg = f"the job has no step yet. Call .sql(...) or .key_by(...).aggregate(...). name={self.settings.name}"
            raise InvalidJobError(msg)
        if self.sink is None:
            msg = f"the job has no sink yet. Call .write(Sink.parquet(path)), for example. name={self.settings.name}"
            raise InvalidJobError(msg)
        values = {**_fields(self.settings), "steps": self.steps, "sink": self.sink}
        spec = checked_section(JobSpec, values, place="Job", name=argument)
        check_places(spec, place="Job", name=argument)
        return spec

    def sql(self, sql: str, *, name: str | None = None, clock: Literal["refused", "allowed"] = "refused") -> Self:
        """A step of stateless Spark SQL over the sources, or over what the step before emits.

        clock: with `allowed`, the SQL may ask for the current time, and the modes then give other rows.
        """
        step = checked_section(SqlStep, {"sql": sql, "name": name, "clock": clock}, place="Job.sql", name=argument)
        return self.with_step(step)

    def map(  # one argument per setting, by keyword
        self,
        function: str | type,
        *,
        output: str,
        args: Mapping[str, PlainValue] | None = None,
        name: str | None = None,
        parallelism: int | None = None,
        folder: FileName | None = None,
    ) -> Self:
        """A step that a map function makes the rows of: a class, or its name as `package.module:Class`.

        It comes before the first keyed step. `folder` is where its module is imported from: of a class the folder that
        it came from, else the current one.
        """
        reference, home = class_reference(function, place="Job.map")
        settings = {
            "name": name,
            "map": reference,
            "folder": folder or home,
            "args": args,
            "output": output,
            "parallelism": parallelism,
        }
        values = nested({(key,): value for key, value in settings.items()})
        step = checked_section(MapStep, values, place="Job.map", name=argument)
        return self.with_step(resolve_step(step, FilePath()))

    def key_by(self, *columns: str, name: str | None = None, parallelism: int | None = None) -> KeyedJob[Self]:
        """The rows by key, for `.aggregate(...)` or `.process(...)` to end the step, or `.window(...)` to go on."""
        return KeyedJob(self, columns, name, parallelism)

    def window(self, *, name: str | None = None, **window: Unpack[WindowArguments]) -> WindowedJob[Self]:
        """All rows, without a key, by window, for `.aggregate(...)` to end the step. See WindowArguments."""
        return WindowedJob.checked(self, {"name": name}, window)

    def with_step(self, step: Step) -> Self:
        """The same job with one more step."""
        return self._of(self.settings, (*self.steps, step), self.sink, self.origin)

    def write(self, sink: SinkSpec) -> Self:
        """The same job with this sink."""
        return self._of(self.settings, self.steps, sink, self.origin)

    def run(
        self,
        *,
        until: Literal["stopped", "idle", "drained"] = "stopped",
        observer: "Observer | None" = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Run the job as `mixedmode run` does, in this process. Returns when it ends or after `stop` is set.

        until: `idle` returns once everything present is processed, `drained` then ends the input for good. observer is
        told of epochs and the flip as they happen. Raises InvalidJobError before anything is committed, or another
        kind of mixedmode.errors that says what to do; calling it again resumes.
        """
        from mixedmode.driver.events import Silent  # noqa: PLC0415 - Spark is loaded only to run
        from mixedmode.driver.run import RunOptions, Until, run_job  # noqa: PLC0415

        options = RunOptions(until=Until(until), observer=observer or Silent(), stop=stop)
        run_job(self.spec, self.where, options)

    def rescale(self, parallelism: int | None, *, step: str | None = None) -> None:
        """Ask the job, wherever it runs, for so many subtasks of each keyed step, or of one, from its next epoch on.

        None withdraws all that was asked for. Returns when it is asked for. Raises InvalidJobError, which says why, if
        it cannot be done.
        """
        from mixedmode.driver.rescale_requests import ask_to_rescale  # noqa: PLC0415 - the store is loaded only to use it

        ask_to_rescale(self.spec, parallelism, step=step)

    def create_savepoint(self, place: FileName) -> None:
        """Keep the newest checkpoint in a folder or URL of its own, wherever the job runs. See docs/savepoints.md."""
        from mixedmode.job.savepoints import take_savepoint  # noqa: PLC0415 - the store is loaded only to use it

        take_savepoint(self.spec, os.fspath(place))

    def restore_savepoint(
        self, place: FileName, *, allow_dropped_state: bool = False, moved: Mapping[str, str] | None = None
    ) -> None:
        """Fill the job's empty checkpoint folder from a savepoint, so that `run` goes on from it.

        allow_dropped_state: leave out the state of steps that the job does not have. moved: folders of input files that
        were moved since, {as it was: as it is}. Raises InvalidJobError, which says why, if the job cannot go on.
        """
        from mixedmode.driver.restoring import restore_savepoint  # noqa: PLC0415 - Spark is loaded only to plan

        restore_savepoint(os.fspath(place), self.spec, self.where, allow_dropped=allow_dropped_state, moved=moved)

    def to_yaml(self) -> str:
        """The job as a job file, with absolute paths."""
        return job_spec_to_yaml(self.spec)

    def where(self, *path: str | int) -> str:
        """`job.yaml:17: steps[0].sql` for a job from a file, `steps[0].sql` for one from Python."""
        return path_text(path) if self.origin is None else self.origin.where(*path)

    def _fill(
        self,
        settings: JobSettings,
        steps: tuple[Step, ...],
        sink: SinkSpec | None,
        origin: LoadedJob | None,
    ) -> None:
        values = {"settings": settings, "steps": steps, "sink": sink, "origin": origin}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # frozen from here on

    @classmethod
    def _of(
        cls,
        settings: JobSettings,
        steps: tuple[Step, ...],
        sink: SinkSpec | None,
        origin: LoadedJob | None,
    ) -> Self:
        job = cls.__new__(cls)
        job._fill(settings, steps, sink, origin)  # noqa: SLF001  # a class's own
        return job


def _settings_of(spec: JobSpec) -> JobSettings:
    """The part of a job that is no step and no sink; what was valid as a whole is valid in part."""
    settings = _fields(spec)
    return JobSettings.model_validate({key: settings[key] for key in map(key_of, JobSettings.model_fields)})


def _fields(settings: JobSettings) -> dict[str, Any]:
    return {key_of(name): getattr(settings, name) for name in type(settings).model_fields}
