"""Names of all objects under the folder of an output. No other module builds or parses them.

    <out>/_mixedmode                                      describes the output      create-once
    <out>/_claim                                          the writer that may publish; a newer one replaces it
    <out>/_sent                                           of a topic: the newest epoch that was sent to it
    <out>/_staging/<epoch>-<subtask>-<unique>.<ext>.staged written by tasks, not yet visible to readers
    <out>/part-<epoch>-<subtask>.<ext>                    published; the same name if the epoch is repeated
    <out>/<name>=<value>/.../part-<epoch>-<subtask>-<part>.<ext>
                                                          the same, for a partitioned or rolled output
    <out>/[<name>=<value>/...]compacted-<first>-<last>-<number>.<ext>
                                                          replaces all parts of these epochs in its folder
    <out>/_epochs/<epoch>                                 a mark that the epoch is fully published; names its files
    <out>/_compactions/<number>                           the plan of a compaction   create-once
    <out>/_compactions/<number>-<unique>.<ext>.rows       rows that this plan puts into the output

Each output of a job has a separate folder <out>, and all outputs use these names. A file that readers should not read
has no extension of a format, so a glob such as `**/*.json` finds published files only.

Invariants (tests/checkpoint/test_paths.py):
  I1  parse(build(parts)) == parts, and parse returns None for every name that build cannot return
  I2  names of one kind sort by (epoch, subtask)
"""

import re
from dataclasses import dataclass

from mixedmode.checkpoint.paths import ATTEMPT_TAIL, ID, UNIQUE, AttemptFile, padded
from mixedmode.checkpoint.types import Epoch

__all__ = [
    "CLAIM",
    "COMPACTIONS",
    "EPOCH_MARKERS",
    "OUTPUT_DESCRIPTION",
    "SENT",
    "STAGING",
    "OutputFile",
    "compacted_path",
    "compaction_path",
    "epoch_marker_path",
    "final_path",
    "parse_compaction_path",
    "parse_epoch_marker_path",
    "parse_output_path",
    "parse_replacement_path",
    "parse_staged_path",
    "replacement_path",
    "staged_path",
]

STAGING = "_staging"
EPOCH_MARKERS = "_epochs"
COMPACTIONS = "_compactions"
OUTPUT_DESCRIPTION = "_mixedmode"
CLAIM = "_claim"
SENT = "_sent"

_EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.]*")
_STAGED_NAME = re.compile(rf"{STAGING}/{ATTEMPT_TAIL}\.{_EXTENSION.pattern}\.staged")
_FOLDER = r"(?:[^/=]+=[^/=]+/)*"
_FINAL_NAME = re.compile(rf"({_FOLDER})part-{ID}-{ID}(?:-{ID})?\.({_EXTENSION.pattern})")
_COMPACTED_NAME = re.compile(rf"({_FOLDER})compacted-{ID}-{ID}-{ID}\.({_EXTENSION.pattern})")
_MARKER_NAME = re.compile(rf"{EPOCH_MARKERS}/{ID}")
_COMPACTION_NAME = re.compile(rf"{COMPACTIONS}/{ID}")
_REPLACEMENT_NAME = re.compile(rf"{COMPACTIONS}/{ID}-{UNIQUE.pattern}\.{_EXTENSION.pattern}\.rows")


@dataclass(frozen=True, slots=True, order=True)
class OutputFile:
    """The parts of the name of a published file. In sorted order, the rows of a key come from oldest to newest.

    `folder` is the folder of the file's partition, with a slash at its end; "" if the output has no partitions. A file
    of one task holds rows of one epoch (`first` equals `last`), and has a `subtask` and perhaps a `part` (else -1). A
    compacted file holds the rows of all epochs from `first` to `last`, both included; its `subtask` is -1, and its
    `part` is the number of the plan that it is of.
    """

    folder: str
    first: Epoch
    last: Epoch
    subtask: int
    part: int
    extension: str

    @property
    def is_compacted(self) -> bool:
        """Return whether a compaction wrote the file."""
        return self.subtask < 0


def staged_path(epoch: Epoch, subtask: int, unique: str, extension: str) -> str:
    """Return the path of the staged output of one attempt of one subtask.

    It is relative to the sink's folder; `extension` has no leading dot.
    """
    assert UNIQUE.fullmatch(unique), unique
    assert _EXTENSION.fullmatch(extension), extension
    return f"{STAGING}/{padded(epoch)}-{padded(subtask)}-{unique}.{extension}.staged"


def final_path(epoch: Epoch, subtask: int, extension: str, *, folder: str = "", part: int | None = None) -> str:
    """Return the path of a published file, relative to the sink's folder.  It does not depend on the attempt.

    folder: the partition's folder, such as `country=DE/`. part: the number of the file, for outputs that may have
    several files per subtask.
    """
    assert _EXTENSION.fullmatch(extension), extension
    assert re.fullmatch(_FOLDER, folder), folder
    number = "" if part is None else f"-{padded(part)}"
    return f"{folder}part-{padded(epoch)}-{padded(subtask)}{number}.{extension}"


def compacted_path(first: Epoch, last: Epoch, number: int, extension: str, *, folder: str = "") -> str:
    """Return the path of the file that replaces all files of the epochs `first` to `last`.  number: of its plan."""
    assert first <= last, (first, last)
    assert _EXTENSION.fullmatch(extension), extension
    assert re.fullmatch(_FOLDER, folder), folder
    return f"{folder}compacted-{padded(first)}-{padded(last)}-{padded(number)}.{extension}"


def epoch_marker_path(epoch: Epoch) -> str:
    """Return the path of an output's mark that an epoch is published."""
    return f"{EPOCH_MARKERS}/{padded(epoch)}"


def compaction_path(number: int) -> str:
    """Return the path of the plan of a compaction of an output."""
    return f"{COMPACTIONS}/{padded(number)}"


def replacement_path(number: int, unique: str, extension: str) -> str:
    """Return the path of rows that a plan puts into an output.  number: that the plan is to have."""
    assert UNIQUE.fullmatch(unique), unique
    assert _EXTENSION.fullmatch(extension), extension
    return f"{COMPACTIONS}/{padded(number)}-{unique}.{extension}.rows"


def parse_staged_path(path: str) -> AttemptFile | None:
    """Return the parts of the name of a staged file, None for any other name."""
    found = _STAGED_NAME.fullmatch(path)
    return AttemptFile(Epoch(int(found[1])), int(found[2]), found[3]) if found else None


def parse_output_path(path: str) -> OutputFile | None:
    """Return the parts of the name of a published file, None for any other name."""
    found = _FINAL_NAME.fullmatch(path)
    if found is not None:
        epoch = Epoch(int(found[2]))
        return OutputFile(found[1], epoch, epoch, int(found[3]), -1 if found[4] is None else int(found[4]), found[5])
    found = _COMPACTED_NAME.fullmatch(path)
    if found is None or found[2] > found[3]:
        return None
    return OutputFile(found[1], Epoch(int(found[2])), Epoch(int(found[3])), -1, int(found[4]), found[5])


def parse_epoch_marker_path(path: str) -> Epoch | None:
    """Return the epoch of an epoch marker, None for any other name."""
    found = _MARKER_NAME.fullmatch(path)
    return Epoch(int(found[1])) if found else None


def parse_compaction_path(path: str) -> int | None:
    """Return the number of a compaction's plan, None for any other name."""
    found = _COMPACTION_NAME.fullmatch(path)
    return int(found[1]) if found else None


def parse_replacement_path(path: str) -> int | None:
    """Return the number of the plan that rows were stored for, None for any other name."""
    found = _REPLACEMENT_NAME.fullmatch(path)
    return int(found[1]) if found else None
