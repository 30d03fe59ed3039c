"""The values of a checkpoint: what an epoch read, the state and the outputs that it left.

The one idea: state is a list of immutable files, and a manifest is the list. Everything here is a frozen value
that survives JSON and pickling, and nothing here opens a file.

Invariants (kept by whoever builds the values; tests/checkpoint/test_manifest.py):
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
    "Generation",
    "GoingBack",
    "JobIdentity",
    "ListState",
    "Manifest",
    "OperatorState",
    "PathTaken",
    "Redistribution",
    "RunFile",
    "SourceLog",
    "SourceProgress",
    "StagedFile",
]

#: Counter of checkpoints, equal to Spark's batch id; 0 is the first. Never a time.
Epoch = NewType("Epoch", int)
#: Counter of the job's starts; 1 is the first. The highest one that exists is the only one that may commit.
Generation = NewType("Generation", int)

PathTaken = Literal["sorted", "streaming"]
#: what becomes of the lists of a step's subtasks when their number changes; None: it must not change
Redistribution = Literal["split", "union"] | None


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """What must stay the same for stored state to be readable.

    `operators` is {operator id: fingerprint}; a fingerprint is JSON (mixedmode/plan/fingerprint.py).
    """

    name: str
    max_parallelism: int
    operators: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class RunFile:
    """One immutable sorted run (an SST file) that holds state of the key groups [key_group_start, key_group_end).

    `entries` counts values and tombstones of the operator's state `state_id`, `deletions` the tombstones among them.
    `checksum` is of the whole file (checkpoint/checksum.py). `merged_from` are the names of the runs, oldest first,
    that it replaced.

    `clipped_from` is the half-open range of key groups that the file itself covers, where that is more than the run's
    own: the rest of it was replaced by other runs. One file may then be several runs, of disjoint ranges.
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

    `sink` is the name of the output that it is of, "" for the main one; each has a folder of its own. In an epoch, an
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
    """The whole keyed state of one operator after an epoch: `runs` oldest to newest, laid over each other.

    `state_schema` is any mapping that JSON gives back unchanged (string keys; lists, not tuples; no NaN). `parallelism`
    is the number of its subtasks in the epoch.
    """

    operator_id: str
    state_schema: Mapping[str, object]
    runs: tuple[RunFile, ...]
    parallelism: int


@dataclass(frozen=True, slots=True)
class ListState:
    """The operator state of a step without keys: one list per subtask, in their order.  Source: FLIP-8.

    Items are the granules that a change of parallelism hands out anew; each is MessagePack as base64 text.
    """

    operator_id: str
    redistribution: Redistribution
    lists: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """How far one source is: records read since the job began, greatest event time, watermark (None: none yet).

    `splits` are its parts by the value of the partition column, the one part "" where there is no such column.
    """

    records: int
    max_event_time_us: int | None
    watermark_us: int | None
    splits: Mapping[str, SplitProgress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceLog:
    """How far Spark's log of a source belongs to an epoch, and the checksum of that part (checkpoint/source_log.py).

    `source` is Spark's number of it, `end` its newest entry, `files` how many files are named up to there. `end` is
    None for a source that is no log of files; the checksum is then of its entry 0.
    """

    source: int
    end: int | None
    files: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed epoch. The manifest existing *is* the commit; files that no manifest names do not exist.

    `offsets` is the text of Spark's offset log entry for the epoch, character by character: a repeat of the epoch
    must cover exactly that range. `records_in`, `rows_out`, `pairs` (state entries written), `records_late` (too late
    for every window), `records_ahead` (too far ahead of the clock to move the watermark) and `records_skipped` (a
    function failed on them, and on-error is skip) count this epoch only.

    `watermark_us` is the job's watermark after the epoch, `clock_ms` the processing time that the epoch was given; each
    None where there is none. `output_names` are the outputs that the job had, "" being the main one.

    `is_final`: the input has ended, everything has fired, and no epoch comes after this one. Spark has no entry for
    such an epoch, so `offsets` is "".

    `parallelism` is what the job was asked for; a step may have one of its own. `list_states` are by step.

    `backlog_sources` are the sources that were in backlog in this epoch, in order of their names. `source_logs` are the
    parts of Spark's logs of sources that the epoch and those before it have read. `output_contents` are digests of all
    that was ever published to each output (contents.py); an output that it lacks has one nowhere after it.
    """

    job: str
    epoch: Epoch
    generation: Generation
    previous: Epoch | None
    created_ms: int
    is_backlog: bool
    path: PathTaken
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


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that keeps a checkpoint from being used: what it is, where it is, and what is wrong with it.

    what: "manifest", "state" (a run), "output", "spark" (an entry of Spark's log), or "lineage": the manifest is whole,
    and of a past that the job has gone back from (GoingBack).
    """

    what: Literal["manifest", "state", "output", "spark", "lineage"]
    where: str
    why: str

    def __str__(self) -> str:
        """For a person: what is wrong, then the file."""
        return f"{self.why}, file={self.where}"


@dataclass(frozen=True, slots=True)
class CheckedCheckpoint:
    """A checkpoint and what is damaged of it; () if it is whole."""

    epoch: Epoch
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True)
class GoingBack:
    """The record that a start of the job went back: what older starts committed after `to` is no longer its past."""

    generation: Generation
    to: Epoch
    reasons: tuple[str, ...]
