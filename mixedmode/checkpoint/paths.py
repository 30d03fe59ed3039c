"""Names of all objects under a checkpoint folder. No other module builds or parses them.

output_paths.py has those under the folder of an output.

Ids are zero-padded to 10 digits, so in any listing names sort in the order of their numbers.

    job.json                                              the job's identity        create-once
    generations/<generation>                              one per start of the job  create-once
    manifests/<epoch>.json                                THE commit point          create-once
    runs/<operator id>/<epoch>-<subtask>-<unique>.sst     state                     create-once, immutable
    went-back/<generation>-<epoch>.json                   that start went back to `epoch`   create-once
    parallelism/<number>.json                             a request to rescale      create-once, deleted when outdated
    paused.json                                           the job is to pause       create-once, deleted to resume
    topics.json                                           ids of the topics of the first epoch   create-once
    leases/<epoch>-<expires ms>-<reader>.json             keeps a checkpoint        create-once, deleted when it ends
    spark/                                                Spark's own checkpoint folder (its numbers are not padded)
    spark/offsets/<epoch>, spark/commits/<epoch>          the input range of an epoch; a mark that foreachBatch returned
    spark/sources/<source>/<number>[.compact]             the new input of a source; beside each entry, .<name>.crc

    <savepoint>/savepoint.json                            its contents; it exists only if all is whole    create-once
    <savepoint>/manifests/, runs/, spark/                 as in a checkpoint folder

`<unique>` distinguishes the attempts of one subtask. `attempt(generation, token)` builds a `<unique>` that also names
the start of the job, so that a start can delete its own files (gc.discard_attempts).

Invariants (tests/checkpoint/test_paths.py):
  I1  parse(build(parts)) == parts, and parse returns None for every name that build cannot return
  I2  names of one kind sort by (epoch, subtask)
"""

import re
from dataclasses import dataclass

from mixedmode.checkpoint.types import Epoch, Generation, Lease

__all__ = [
    "ATTEMPT_TAIL",
    "GENERATIONS",
    "GOINGS_BACK",
    "ID",
    "JOB",
    "LEASES",
    "MANIFESTS",
    "PARALLELISM",
    "PAUSE",
    "RUNS",
    "SAVEPOINT",
    "SPARK",
    "SPARK_METADATA",
    "TOPICS",
    "UNIQUE",
    "AttemptFile",
    "SparkLogFile",
    "attempt",
    "generation_path",
    "going_back_path",
    "lease_path",
    "manifest_path",
    "padded",
    "parse_attempt",
    "parse_generation_path",
    "parse_going_back_path",
    "parse_lease_path",
    "parse_manifest_path",
    "parse_rescale_path",
    "parse_run_path",
    "parse_savepoint_path",
    "parse_spark_path",
    "rescale_path",
    "run_path",
    "spark_checksum_path",
    "spark_commits_path",
    "spark_offsets_path",
    "spark_source_path",
]

JOB = "job.json"
GENERATIONS = "generations"
GOINGS_BACK = "went-back"
MANIFESTS = "manifests"
RUNS = "runs"
PARALLELISM = "parallelism"
LEASES = "leases"
PAUSE = "paused.json"
TOPICS = "topics.json"
SAVEPOINT = "savepoint.json"
SPARK = "spark"
SPARK_METADATA = f"{SPARK}/metadata"

_DIGITS = 10
_ID_LIMIT = 10**_DIGITS
ID = rf"([0-9]{{{_DIGITS}}})"  #: a pattern of an id
UNIQUE = re.compile(r"[A-Za-z0-9_]+")  #: of `<unique>`
ATTEMPT_TAIL = rf"{ID}-{ID}-({UNIQUE.pattern})"  #: a pattern of `<epoch>-<subtask>-<unique>`
_OPERATOR_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_GENERATION_NAME = re.compile(rf"{GENERATIONS}/{ID}")
_GOING_BACK_NAME = re.compile(rf"{GOINGS_BACK}/{ID}-{ID}\.json")
_MANIFEST_NAME = re.compile(rf"{MANIFESTS}/{ID}\.json")
_RESCALE_NAME = re.compile(rf"{PARALLELISM}/{ID}\.json")
_MS_DIGITS = 15
_LEASE_NAME = re.compile(rf"{LEASES}/{ID}-([0-9]{{{_MS_DIGITS}}})-({UNIQUE.pattern})\.json")
_RUN_NAME = re.compile(rf"{RUNS}/({_OPERATOR_ID.pattern})/{ATTEMPT_TAIL}\.sst")
_SPARK_NAME = re.compile(
    rf"{SPARK}/(offsets|commits|sources/(?:0|[1-9][0-9]*))/(\.?)(0|[1-9][0-9]*)(\.compact)?(\.crc)?"
)
_ATTEMPT = re.compile(rf"g{ID}_[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class AttemptFile:
    """The parts of the name of a run or of a staged file."""

    epoch: Epoch
    subtask: int
    unique: str


@dataclass(frozen=True, slots=True)
class SparkLogFile:
    """An entry of one of Spark's logs: `log` is "offsets", "commits" or "sources/<number of the source>".

    The numbers of offsets and commits are epochs; each source numbers its own entries. A compact entry also contains
    all entries before it. `is_checksum`: the file is not the entry, but Hadoop's checksum of the entry.
    """

    log: str
    number: int
    is_compact: bool = False
    is_checksum: bool = False

    @property
    def source(self) -> int | None:
        """Return the number of the source that the log belongs to; None for offsets and commits."""
        return int(self.log.partition("/")[2]) if "/" in self.log else None


def generation_path(generation: Generation) -> str:
    """Return the path of the record of one start of the job."""
    return f"{GENERATIONS}/{padded(generation)}"


def going_back_path(generation: Generation, to: Epoch) -> str:
    """Return the path of the record that a start went back to the epoch `to`. The name holds all that is acted upon."""
    return f"{GOINGS_BACK}/{padded(generation)}-{padded(to)}.json"


def manifest_path(epoch: Epoch) -> str:
    """Return the path of the manifest of one epoch."""
    return f"{MANIFESTS}/{padded(epoch)}.json"


def rescale_path(number: int) -> str:
    """Return the path of one request to rescale."""
    return f"{PARALLELISM}/{padded(number)}.json"


def lease_path(lease: Lease) -> str:
    """Return the path of a lease. The name holds all that the job acts upon."""
    assert UNIQUE.fullmatch(lease.token), lease
    assert 0 <= lease.expires_ms < 10**_MS_DIGITS, lease
    return f"{LEASES}/{padded(lease.epoch)}-{lease.expires_ms:0{_MS_DIGITS}d}-{lease.token}.json"


def run_path(operator_id: str, epoch: Epoch, subtask: int, unique: str) -> str:
    """Return the path of the run that one attempt of one subtask writes.  Relative to the checkpoint folder."""
    assert _OPERATOR_ID.fullmatch(operator_id), operator_id
    assert UNIQUE.fullmatch(unique), unique
    return f"{RUNS}/{operator_id}/{padded(epoch)}-{padded(subtask)}-{unique}.sst"


def spark_offsets_path(epoch: Epoch) -> str:
    """Return the path of Spark's own record of the input range of an epoch."""
    return f"{SPARK}/offsets/{epoch}"


def spark_commits_path(epoch: Epoch) -> str:
    """Return the path of Spark's own record that `foreachBatch` returned for an epoch."""
    return f"{SPARK}/commits/{epoch}"


def spark_source_path(source: int, number: int, *, is_compact: bool = False) -> str:
    """Return the path of Spark's own record of the new input of a source; each source numbers its own entries."""
    return f"{SPARK}/sources/{source}/{number}{'.compact' if is_compact else ''}"


def spark_checksum_path(path: str) -> str:
    """Return the path of Hadoop's checksum of a file of Spark's log on a local disk."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def attempt(generation: Generation, token: str) -> str:
    """Return a `<unique>` part that names the start of the job.  token: new for each file, [A-Za-z0-9]+."""
    unique = f"g{padded(generation)}_{token}"
    assert _ATTEMPT.fullmatch(unique), token
    return unique


def parse_attempt(unique: str) -> Generation | None:
    """Return the start of the job that a `<unique>` part of `attempt` names; None for any other `<unique>` part."""
    found = _ATTEMPT.fullmatch(unique)
    return Generation(int(found[1])) if found else None


def parse_generation_path(path: str) -> Generation | None:
    """Return the generation in a name under generations/, None for any other name."""
    found = _GENERATION_NAME.fullmatch(path)
    return Generation(int(found[1])) if found else None


def parse_going_back_path(path: str) -> tuple[Generation, Epoch] | None:
    """Return (the start that went back, the epoch that it went back to), None for any other name."""
    found = _GOING_BACK_NAME.fullmatch(path)
    return (Generation(int(found[1])), Epoch(int(found[2]))) if found else None


def parse_manifest_path(path: str) -> Epoch | None:
    """Return the epoch in a name under manifests/, None for any other name."""
    found = _MANIFEST_NAME.fullmatch(path)
    return Epoch(int(found[1])) if found else None


def parse_rescale_path(path: str) -> int | None:
    """Return the number of the request in a name under parallelism/, None for any other name."""
    found = _RESCALE_NAME.fullmatch(path)
    return int(found[1]) if found else None


def parse_lease_path(path: str) -> Lease | None:
    """Return the lease in a name under leases/, None for any other name."""
    found = _LEASE_NAME.fullmatch(path)
    return None if found is None else Lease(Epoch(int(found[1])), int(found[2]), found[3])


def parse_run_path(path: str) -> AttemptFile | None:
    """Return the parts of the name of a run, None for any other name."""
    found = _RUN_NAME.fullmatch(path)
    return AttemptFile(Epoch(int(found[2])), int(found[3]), found[4]) if found else None


def parse_savepoint_path(path: str) -> str | None:
    """Return the folder of a savepoint.json ("" for the listed folder itself), None for any other name."""
    folder, _, name = path.rpartition("/")
    return folder if name == SAVEPOINT else None


def parse_spark_path(path: str) -> SparkLogFile | None:
    """Return the entry of Spark's logs that a name stands for, None for any other name (such as SPARK_METADATA)."""
    found = _SPARK_NAME.fullmatch(path)
    if found is None or bool(found[2]) != bool(found[5]) or (found[4] and not found[1].startswith("sources/")):
        return None
    return SparkLogFile(found[1], int(found[3]), is_compact=bool(found[4]), is_checksum=bool(found[5]))


def padded(number: int) -> str:
    """Return an id as it stands in names."""
    assert 0 <= number < _ID_LIMIT, number
    return f"{number:0{_DIGITS}d}"
