"""The frames that a job reads, and the settings of its stages. A frame has rows, or files that map tasks read."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from mixedmode.checkpoint.rescale import Subtasks
from mixedmode.checkpoint.types import Generation
from mixedmode.config import JobSpec, SourceSpec
from mixedmode.connectors.files.source import FileSource
from mixedmode.driver.dead_letters import FilesOf
from mixedmode.driver.input_files import ignores_missing, inputs_gone, line_sources
from mixedmode.driver.rescale_requests import configured_subtasks
from mixedmode.executor.input_frames import input_frame, planned_files, prune_in_streams
from mixedmode.executor.protocol import StageSettings
from mixedmode.plan.job_plan import JobPlan
from mixedmode.plan.readings import readings
from mixedmode.sinks import SinkTask
from mixedmode.sources.heartbeat import with_heartbeat
from mixedmode.sources.sides import batches_of_sides, sides_of, streams_of_sides, united
from mixedmode.sources.source import Admission, ChecksBeginning, NotesBeginning, OpenSource, ReadsRanges
from mixedmode.spark.file_lengths import FileState, file_states
from mixedmode.spark.session import cores


class Inputs:
    """A planned job's sources in one session."""

    def __init__(self, session: SparkSession, spec: JobSpec, plan: JobPlan, sources: Mapping[str, OpenSource]) -> None:
        """`sources` are the sources of the job, opened in this session."""
        if plan.listed or any(isinstance(side, ReadsRanges) for one in sources.values() for side in sides_of(one)):
            prune_in_streams(session)
        self.session = session
        self._spec = spec
        self._plan = plan
        self._sources = sources
        for source in self._listed_sides().values():
            source.is_parsed_by_tasks = True
        self._parallelism = min(cores(session), spec.pipeline.max_parallelism)  # where no number is given
        #: {limits of the sources: streaming frame of their files}; a frame may be the input of several queries
        self._planned: dict[tuple[Admission, ...], DataFrame] = {}
        self._read: Sequence[str] | None = None  # see _readings

    def batch(self) -> DataFrame:
        """Return a frame of all input that is present now, without the files that tasks read themselves."""
        if self._plan.is_all_listed:
            for source in self._listed_sides().values():
                source.list_batch()
            return self.session.range(0).toDF("nothing")
        listed = self._listed_sides()
        frames = {
            name: self._rows(name, batches_of_sides(source), [listed.get(name)])
            for name, source in self._sources.items()
        }
        return input_frame(self.session, self._plan, frames)

    def batch_files(self) -> dict[str, tuple[str, ...]]:
        """Return {source: URLs of the files of the last `batch` that tasks read themselves}."""
        return self.files_of([(side, side.batch_files()) for side in self._listed_sides().values()])

    def _rows(self, name: str, frames: Sequence[DataFrame], read_elsewhere: Sequence[OpenSource | None]) -> DataFrame:
        """Return the rows of a source, made of those of its sides, without those of the sides that are read elsewhere:
        files by tasks, and ranges by the epoch.
        """
        source = self._sources[name]
        is_empty = [any(side is other for other in read_elsewhere) for side in sides_of(source)]
        rows = [frame.where("false") if empty else frame for frame, empty in zip(frames, is_empty, strict=True)]
        return united(source, rows)

    def stream(self, admission: Callable[[SourceSpec], Admission]) -> DataFrame:
        """Return a streaming frame of present and future input; a micro-batch has at most `admission` per source."""
        limits = {name: admission(source) for name, source in self._spec.sources.items()}
        if self._plan.is_all_listed:
            return self._planned_stream(limits)
        listed = self._listed_sides()
        frames = {}
        for name, source in self._sources.items():
            ranges = [side for side in sides_of(source) if isinstance(side, ReadsRanges)]
            frames[name] = self._rows(name, streams_of_sides(source, limits[name]), [listed.get(name), *ranges])
        return self._timed(input_frame(self.session, self._plan, frames))

    def _timed(self, frame: DataFrame) -> DataFrame:
        """Return a streaming frame whose query runs also without input, where the job depends on the clock."""
        return with_heartbeat(self.session, frame) if self._plan.uses_clock else frame

    def _planned_stream(self, limits: Mapping[str, Admission]) -> DataFrame:
        files = self._listed_sides()
        key = tuple(limits[name] for name in files)
        if key not in self._planned:
            planned = {name: source.plan_stream(limits[name]) for name, source in files.items()}
            self._planned[key] = self._timed(planned_files(planned, self._readings()))
        return self._planned[key]

    def line_sources(self) -> tuple[int, ...]:
        """Return the number of the source of each line of Spark's offset entries."""
        return line_sources(self.stream(lambda _source: Admission()))

    def source_names(self) -> dict[int, str]:
        """Return {number that Spark's log has for a source: its name}."""
        names = self._plan.sources_read
        lines = self.line_sources()
        end = len(lines) - self._plan.uses_clock  # the clock comes last, and before it each source once
        return dict(zip(lines[end - len(names) : end], names, strict=True))

    def present(self, urls: Sequence[str]) -> dict[str, FileState]:
        """Return {URL: its state} of those of the planned files that exist.

        Raise CorruptStateError if a file does not exist, unless the job's settings tell Spark to skip missing files.
        """
        options: dict[str, str] = {}
        for source in self._spec.sources.values():
            for side in getattr(source, "sides", {"": source}).values():
                options |= getattr(side, "options", {})
        found = file_states(self.session, urls, options)
        gone = [url for url in urls if url not in found]
        if gone and not ignores_missing(self.session):
            raise inputs_gone(gone, planned=len(urls))
        return found

    def files_of(self, files: FilesOf) -> dict[str, tuple[str, ...]]:
        """Return {source: URLs of those of its files in an epoch that are read}.  files: by opened source or side.

        If tasks read one side of a source themselves, they are the files of that side.
        """
        listed = self._listed_sides()
        found = {}
        for name, source in self._sources.items():
            sides = [listed[name]] if name in listed else sides_of(source)
            of_sides = ((side, urls) for side in sides for one, urls in files if one is side)
            found[name] = tuple(
                url
                for side, urls in of_sides
                for url in (side.files_read(urls) if isinstance(side, FileSource) else urls)
            )
        return found

    def check_beginnings(self) -> None:
        """Before a job's first epoch: raise InvalidJobError if a stream would skip a part of the present input."""
        for source in self._sources.values():
            if isinstance(source, ChecksBeginning):
                source.check_beginning()

    def notices(self) -> Iterator[str]:
        """Yield facts about the input that a person should see before the first epoch, such as that it has no files."""
        for source in self._sources.values():
            if isinstance(source, NotesBeginning):
                yield from source.notices()

    def reads_once(self, path: str) -> bool:
        """Return whether a source reads the file of this path once, although the path looks like a pattern to Spark."""
        return any(isinstance(one, NotesBeginning) and one.reads_once(path) for one in self._sources.values())

    def _listed_sides(self) -> dict[str, FileSource]:
        """Return the sources, or the sides of sources, whose files tasks read themselves."""
        found = {}
        for name, number in self._plan.listed.items():
            side = sides_of(self._sources[name])[number or 0]
            assert isinstance(side, FileSource), side
            found[name] = side
        return found

    def _readings(self) -> Sequence[str]:
        """Return the source of each reading in the query of a job whose tasks read files, as if Spark read the rows.

        So Spark's log has as many lines either way. The last readings are one of each source (`input_frame`).
        """
        if self._read is None:
            self._read = readings(self._plan) or self.readings_of_rows()
        return self._read

    def readings_of_rows(self) -> Sequence[str]:
        """Return the source of each reading in the query of this job if Spark reads the rows. It takes a while."""
        names = self._plan.sources_read
        frames = {name: source.stream(Admission()) for name, source in self._sources.items()}
        lines = line_sources(input_frame(self.session, self._plan, frames))
        name_of = dict(zip(lines[-len(names) :], names, strict=True))
        return [name_of[number] for number in lines]

    def settings(
        self,
        sinks: Mapping[str, SinkTask],
        checkpoint_url: str | None,
        generation: Generation,
        *,
        is_backlog: bool,
        subtasks: Subtasks | None = None,
    ) -> StageSettings:
        """Return the stage settings. If the backlog has its own parallelism, every step has that one in backlog.

        checkpoint_url: None in batch mode. subtasks: the requested numbers; None: the numbers of the job file.
        """
        asked = subtasks or configured_subtasks(self._spec)
        backlog_parallelism = self._spec.execution.backlog.parallelism if is_backlog else None
        return StageSettings(
            parallelism=backlog_parallelism or asked.job or self._parallelism,
            step_parallelism={} if backlog_parallelism else asked.steps,
            max_parallelism=self._spec.pipeline.max_parallelism,
            sort_memory_bytes=self._spec.state.backlog.sort_memory_bytes,
            checkpoint_url=checkpoint_url,
            generation=generation,
            sinks=sinks,
            job=self._spec.name,
            emits_running_results=self._spec.execution.backlog.emit == "all",
        )
