"""Names of everything under a checkpoint folder and under a sink's folder. No other module builds or splits one.

The one idea: ids are zero-padded to 10 digits, so names sort as their numbers do, in any listing.

    job.json                                              who the job is            create-once
    generations/<generation>                              one per start of the job  create-once
    manifests/<epoch>.json                                THE commit point          create-once
    runs/<operator id>/<epoch>-<subtask>-<unique>.sst     state                     create-once, immutable
    spark/                                                Spark's own checkpoint folder (its numbers are not padded)

    <out>/_mixedmode.json                                 describes the output      create-once
    <out>/_staging/<epoch>-<subtask>-<unique>.<ext>       written by tasks, not yet visible to readers
    <out>/part-<epoch>-<subtask>.<ext>                    published; the same name if the epoch is repeated

Each output of a job has a folder <out> of its own; in all of them, names are of this form.

`<unique>` tells attempts of one subtask apart. `attempt(generation, token)` builds one that also names the start of the
job it belongs to, so that a start can take back its own files (gc.discard_attempts).

Invariants (tests/checkpoint/test_paths.py):
  I1  parse(build(parts)) == parts, and parse gives None for every name that build cannot give
  I2  names of one kind sort by (epoch, subtask)
"""

import re
from dataclasses import dataclass

from mixedmode.checkpoint.types import Epoch, Generation

__all__ = [
    "GENERATIONS",
    "JOB",
    "MANIFESTS",
    "OUTPUT_DESCRIPTION",
    "RUNS",
    "SPARK",
    "STAGING",
    "AttemptFile",
    "attempt",
    "final_path",
    "generation_path",
    "manifest_path",
    "parse_attempt",
    "parse_final_path",
    "parse_generation_path",
    "parse_manifest_path",
    "parse_run_path",
    "parse_staged_path",
    "run_path",
    "spark_commits_path",
    "spark_offsets_path",
    "staged_path",
]

JOB = "job.json"
GENERATIONS = "generations"
MANIFESTS = "manifests"
RUNS = "runs"
SPARK = "spark"
STAGING = "_staging"
OUTPUT_DESCRIPTION = "_mixedmode.json"

_DIGITS = 10
_ID_LIMIT = 10**_DIGITS
_OPERATOR_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_UNIQUE = re.compile(r"[A-Za-z0-9_]+")
_EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.]*")
_GENERATION_NAME = re.compile(rf"{GENERATIONS}/([0-9]{{{_DIGITS}}})")
_MANIFEST_NAME = re.compile(rf"{MANIFESTS}/([0-9]{{{_DIGITS}}})\.json")
_ATTEMPT_TAIL = rf"([0-9]{{{_DIGITS}}})-([0-9]{{{_DIGITS}}})-({_UNIQUE.pattern})"
_RUN_NAME = re.compile(rf"{RUNS}/({_OPERATOR_ID.pattern})/{_ATTEMPT_TAIL}\.sst")
_STAGED_NAME = re.compile(rf"{STAGING}/{_ATTEMPT_TAIL}\.{_EXTENSION.pattern}")
_FINAL_NAME = re.compile(rf"part-([0-9]{{{_DIGITS}}})-([0-9]{{{_DIGITS}}})\.{_EXTENSION.pattern}")
_ATTEMPT = re.compile(rf"g([0-9]{{{_DIGITS}}})_[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class AttemptFile:
    """What the name of a run or of a staged file says."""

    epoch: Epoch
    subtask: int
    unique: str


def generation_path(generation: Generation) -> str:
    """Where one start of the job is recorded."""
    return f"{GENERATIONS}/{_padded(generation)}"


def manifest_path(epoch: Epoch) -> str:
    """Where the manifest of one epoch is, or will be."""
    return f"{MANIFESTS}/{_padded(epoch)}.json"


def run_path(operator_id: str, epoch: Epoch, subtask: int, unique: str) -> str:
    """Where one attempt of one subtask puts its state.  Relative to the checkpoint folder."""
    assert _OPERATOR_ID.fullmatch(operator_id), operator_id
    assert _UNIQUE.fullmatch(unique), unique
    return f"{RUNS}/{operator_id}/{_padded(epoch)}-{_padded(subtask)}-{unique}.sst"


def staged_path(epoch: Epoch, subtask: int, unique: str, extension: str) -> str:
    """Where one attempt of one subtask puts its output.  Relative to the sink's folder; extension without a dot."""
    assert _UNIQUE.fullmatch(unique), unique
    assert _EXTENSION.fullmatch(extension), extension
    return f"{STAGING}/{_padded(epoch)}-{_padded(subtask)}-{unique}.{extension}"


def final_path(epoch: Epoch, subtask: int, extension: str) -> str:
    """The name of a published output: it does not depend on the attempt.  Relative to the sink's folder."""
    assert _EXTENSION.fullmatch(extension), extension
    return f"part-{_padded(epoch)}-{_padded(subtask)}.{extension}"


def spark_offsets_path(epoch: Epoch) -> str:
    """Spark's own record of the range that an epoch covers."""
    return f"{SPARK}/offsets/{epoch}"


def spark_commits_path(epoch: Epoch) -> str:
    """Spark's own record that `foreachBatch` returned for an epoch."""
    return f"{SPARK}/commits/{epoch}"


def attempt(generation: Generation, token: str) -> str:
    """A `<unique>` part that names the start of the job which made the file.  token: new each time, [A-Za-z0-9]+."""
    unique = f"g{_padded(generation)}_{token}"
    assert _ATTEMPT.fullmatch(unique), token
    return unique


def parse_attempt(unique: str) -> Generation | None:
    """The start of the job that `attempt` put into a name; None for a name that was made without it."""
    found = _ATTEMPT.fullmatch(unique)
    return Generation(int(found[1])) if found else None


def parse_generation_path(path: str) -> Generation | None:
    """The generation that a name under generations/ stands for, None for any other name."""
    found = _GENERATION_NAME.fullmatch(path)
    return Generation(int(found[1])) if found else None


def parse_manifest_path(path: str) -> Epoch | None:
    """The epoch that a name under manifests/ stands for, None for any other name."""
    found = _MANIFEST_NAME.fullmatch(path)
    return Epoch(int(found[1])) if found else None


def parse_run_path(path: str) -> AttemptFile | None:
    """What the name of a run says, None for any other name."""
    found = _RUN_NAME.fullmatch(path)
    return AttemptFile(Epoch(int(found[2])), int(found[3]), found[4]) if found else None


def parse_staged_path(path: str) -> AttemptFile | None:
    """What the name of a staged output says, None for any other name."""
    found = _STAGED_NAME.fullmatch(path)
    return AttemptFile(Epoch(int(found[1])), int(found[2]), found[3]) if found else None


def parse_final_path(path: str) -> tuple[Epoch, int] | None:
    """(epoch, subtask) of a published output, None for any other name."""
    found = _FINAL_NAME.fullmatch(path)
    return (Epoch(int(found[1])), int(found[2])) if found else None


def _padded(number: int) -> str:
    assert 0 <= number < _ID_LIMIT, number
    return f"{number:0{_DIGITS}d}"
