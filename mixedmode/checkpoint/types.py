"""The values of a checkpoint: the input that an epoch read, its state and its outputs.

State is a list of immutable files, and the manifest is this list. All values are frozen and survive JSON
and pickling. Nothing here opens a file.

Invariants (kept by the code that builds the values; tests/checkpoint/test_manifest.py):
  I1  paths are relative: of runs to the checkpoint folder, of staged and final files to the sink's folder
  I2  the runs of an operator are ordered oldest to newest; for a key in two runs, the later run holds its state
  I3  a file's name holds the epoch of the manifest that is the first to name it (checkpoint/gc.py depends on it)
  I4  every range of key groups is half-open [start, end)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType

from mixedmode.time import SplitProgress

__all__ = [
    "CheckedCheckpoint",
    "Damage",
    "Epoch",
    "ExecutionStrategy",
    "Generation",
    "GoingBack",
    "JobIdentity",
    "Lease",
    "ListState",
    "Manifest",
    "ManifestIdentity",
    "OperatorState",
    "Redistribution",
    "RunFile",
    "SourceLog",
    "SourceProgress",
    "StagedFile",
    "Start",
    "epoch_kind",
]

#: Counter of checkpoints, equal to Spark's batch id; 0 is the first. Never a time.
Epoch = NewType("Epoch", int)
#: Counter of the job's starts; 1 is the first. The highest one that exists is the only one that may commit.
Generation = NewType("Generation", int)
#: epoch, start of the job, and time of the commit in ms: another manifest of the same epoch differs in one of them
ManifestIdentity = tuple[Epoch, Generation, int]

ExecutionStrategy = Literal["sorted", "streaming"]
#: how the lists of a step's subtasks are redistributed when their number changes; None: the number must not change
Redistribution = Literal["split", "union"] | None


def epoch_kind(*, is_backlog: bool) -> Literal["backlog", "live"]:
    """Return the word for an epoch, as in displays, log lines and documents."""
    return "backlog" if is_backlog else "live"


#: entries of JobIdentity.operators that are named outputs begin with this; the rest is the name
OUTPUT_ENTRY = "output:"
#: the entry of JobIdentity.operators that is about the order of the sources
SOURCES_ENTRY = "sources"


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The properties of a job that must stay the same for stored state to be readable.

    `operators` is {operator id: fingerprint}; a fingerprint is JSON (mixedmode/plan/fingerprint.py).
    """

    name: str
    max_parallelism: int
    operators: Mapping[str, Mapping[str, object]]

    @property
    def steps(self) -> dict[str, Mapping[str, object]]:
        """Return {step: fingerprint}, without the entries of outputs and of the sources."""
        return {
            name: fingerprint
            for name, fingerprint in self.operators.items()
            if name != SOURCES_ENTRY and not name.startswith(OUTPUT_ENTRY)
        }


@dataclass(frozen=True, slots=True)
class RunFile:
    """One immutable sorted run (an SST file) that holds state of the key groups [key_group_start, key_group_end).

    `entries` counts values and tombstones of the operator's state `state_id`, `deletions` the tombstones among them.
    `checksum` is of the whole file (checkpoint/checksum.py). `merged_from` are the names of the runs, oldest first,
    that it replaced.

    `clipped_from` is the half-open range of key groups that the file covers, if it is larger than the run's own range:
    other runs have replaced the rest. One file may then be several runs, of disjoint ranges.
    """

    path: str
    state_id: int
    bytes: int
    entries: int
    key_group_start: int
    key_group_end: int
    checksum: str
    merged_from: tuple[str, ...] = ()
    clipped_from: tuple[int, int] | None = None
    deletions: int = 0


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One output file of one epoch: written at `staged_path`, renamed to `final_path` once its epoch is committed.

    `sink` is the name of the file's output, "" for the main one; each output has a separate folder. In an epoch, an
    output has one file per `final_path`, so its rows come from the subtasks of one stage.
    """

    staged_path: str
    final_path: str
    bytes: int
    rows: int
    checksum: str
    sink: str = ""


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The whole keyed state of one operator after an epoch: `runs`, oldest to newest; newer entries replace older ones.

    `state_schema` is any mapping that survives JSON unchanged (string keys; lists, not tuples; no NaN). `parallelism`
    is the number of the operator's subtasks in the epoch.
    """

    operator_id: str
    state_schema: Mapping[str, object]
    runs: tuple[RunFile, ...]
    parallelism: int


@dataclass(frozen=True, slots=True)
class ListState:
    """The operator state of a step without keys: one list per subtask, in the order of subtasks.  Source: FLIP-8.

    A change of parallelism redistributes whole items; each item is MessagePack as base64 text.
    """

    operator_id: str
    redistribution: Redistribution
    lists: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The progress of one source: records read since the job began, greatest event time, watermark (None: none yet).

    `splits` are the source's parts by the value of its partition column; without such a column, the only part is "".
    """

    records: int
    max_event_time_us: int | None
    watermark_us: int | None
    splits: Mapping[str, SplitProgress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The part of Spark's log of a source that belongs to an epoch, and its checksum (checkpoint/source_log.py).

    `source` is Spark's number of the source, `end` the newest entry of the part, `files` the number of files that the
    part names. `end` is None for a source without a log of files; the checksum is then that of its entry 0.
    """

    source: int
    end: int | None
    files: int
    checksum: str


@dataclass(frozen=True, slots=True)
class JoinFigures:
    """The figures of a join in one epoch.

    `late`: late rows of the left and of the right. `fan_out_max`, `fan_out_p99`: of the partners that a row which
    arrived in this epoch has found; 99 % of the rows have at most the latter.
    """

    late: tuple[int, int]
    fan_out_max: int
    fan_out_p99: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed epoch. The manifest existing *is* the commit; files that no manifest names do not exist.

    `offsets` is the text of Spark's offset log entry for the epoch, character by character: a repeat of the epoch
    must cover exactly that range. `records_in`, `rows_out`, `pairs` (state entries written), `records_late` (too late
    for every window), `records_ahead` (too far ahead of the clock to move the watermark) and `records_skipped` (a
    function failed on them, and on-error is skip) count this epoch only.

    `watermark_us` is the job's watermark after the epoch, `step_watermarks` those of the steps that read only some of
    the sources, and of others with another one than the job, `clock_ms` the processing time of the epoch; each is None
    if there is none. `output_names` are the names of the job's outputs; "" is the main one.

    `is_final`: the input has ended, all windows and timers have fired, and no epoch comes after this one. Spark has no
    entry for such an epoch, so `offsets` is "".

    `parallelism` is the job's setting; a step may have another number. `list_states` has one entry per step.

    `backlog_sources` are the sources that were in backlog in this epoch, sorted by name. `source_logs` are the parts of
    Spark's source logs that this epoch and the epochs before it have read. `output_contents` are digests of all files
    that were ever published to each output (contents.py). If a manifest lacks the digest of an output, all later
    manifests lack it, too. `dimensions` is {dimension: the name of the version that this epoch has read}.

    `topic_ids` is {source: {topic: its id}} for the topics in `offsets`, as far as the brokers give them ids.

    `rows_read` is {operator id of a keyed step: the rows that it read in this epoch}, `joins` {that of a join: its
    figures}; a step that did not run is in neither.
    """

    job: str
    epoch: Epoch
    generation: Generation
    previous: Epoch | None
    created_ms: int
    is_backlog: bool
    strategy: ExecutionStrategy
    parallelism: int
    max_parallelism: int
    sources: Mapping[str, SourceProgress]
    offsets: str
    operators: tuple[OperatorState, ...]
    outputs: tuple[StagedFile, ...]
    records_in: int
    rows_out: int
    pairs: int
    watermark_us: int | None = None
    clock_ms: int | None = None
    is_final: bool = False
    records_late: int = 0
    records_ahead: int = 0
    records_skipped: int = 0
    output_names: tuple[str, ...] = ("",)
    list_states: tuple[ListState, ...] = ()
    backlog_sources: tuple[str, ...] = ()
    source_logs: tuple[SourceLog, ...] = ()
    output_contents: Mapping[str, str] = field(default_factory=dict)
    step_watermarks: Mapping[str, int] = field(default_factory=dict)
    dimensions: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rows_read: Mapping[str, int] = field(default_factory=dict)
    joins: Mapping[str, JoinFigures] = field(default_factory=dict)

    @property
    def identity(self) -> ManifestIdentity:
        """Return what tells the manifest from others of its epoch: of a job that has gone back, or begun anew."""
        return self.epoch, self.generation, self.created_ms


@dataclass(frozen=True, slots=True)
class Damage:
    """One reason why a checkpoint cannot be used: the kind of object, its location, and the problem.

    what: "manifest", "state" (a run), "output", "spark" (an entry of Spark's log), or "lineage": the manifest is
    undamaged, but the job has abandoned it by going back (GoingBack).
    """

    what: Literal["manifest", "state", "output", "spark", "lineage"]
    where: str
    why: str

    def __str__(self) -> str:
        """Return a text for the user: the problem, then the file."""
        return f"{self.why}, file={self.where}"


@dataclass(frozen=True, slots=True)
class CheckedCheckpoint:
    """A checkpoint and its damages; () if it is whole."""

    epoch: Epoch
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class GoingBack:
    """The record that a start of the job went back to `to`: later manifests by older starts no longer count."""

    generation: Generation
    to: Epoch
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """The record of a start of the job, and where it runs: the host, and the number of the driver's process."""

    generation: Generation
    host: str
    process: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A reader's wish to keep the checkpoint of an epoch until a time (ms since 1970). `token` names the reader."""

    epoch: Epoch
    expires_ms: int
    token: str
