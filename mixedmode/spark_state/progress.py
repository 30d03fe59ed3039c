r"""The progress of a query of Spark: the entries of its last committed batch in two logs. Pure.

    offsets/7   v1                                                        commits/7   v1
                {"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{...}}              {"nextBatchWatermarkMs":5}
                one line per source                                       exists once the batch has ended

A batch that is in the offset log alone has not ended: its input is read again.

Source: OffsetSeqLog.scala, CommitLog.scala and StreamMetadata.scala of Apache Spark.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mixedmode.errors import CorruptStateError, InvalidJobError

__all__ = ["SparkProgress", "last_committed", "progress_of"]

_ENTRY = re.compile(r"(offsets|commits)/(\d+)")
_HEAD_LINES = 2


@dataclass(frozen=True, slots=True)
class SparkProgress:
    """The progress of a query of Spark.

    batch: the last committed one. watermark_ms: its watermark, 0 if there was none; rows behind it are late, and what
    it has passed is not in the state. next_watermark_ms: that of the next batch. timestamp_ms: the clock of the batch.
    conf: the settings that Spark keeps with its state. lines: of the sources; "-" for one without input so far.
    has_state: the query has operators with state.
    """

    batch: int
    watermark_ms: int
    next_watermark_ms: int
    timestamp_ms: int
    lines: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)
    has_state: bool = False

    def setting(self, name: str, default: str) -> str:
        """Return a setting of Spark SQL, by its name without `spark.sql.`."""
        return self.conf.get(f"spark.sql.{name}", default)


def last_committed(listing: Iterable[str], folder: str) -> int:
    """Return the last committed batch.  listing: the files of the checkpoint folder, relative to it.

    Raise InvalidJobError if there is none, CorruptStateError if its offsets are gone.
    """
    found: dict[str, set[int]] = {"offsets": set(), "commits": set()}
    for path in listing:
        match = _ENTRY.fullmatch(path)
        if match is not None:
            found[match[1]].add(int(match[2]))
    if not found["commits"]:
        why = "has begun a batch, and committed none" if found["offsets"] else "has no offsets and commits in it"
        msg = (
            f"this folder {why}, so there is nothing to go on from. Name the checkpointLocation of a query of "
            f"Structured Streaming that has run. folder={folder}"
        )
        raise InvalidJobError(msg)
    batch = max(found["commits"])
    if batch not in found["offsets"]:
        raise _damaged(folder, f"offsets/{batch}", "is missing, although the batch was committed")
    return batch


def progress_of(batch: int, offsets: str, commit: str, folder: str, *, has_state: bool = False) -> SparkProgress:
    """Return the progress in the two entries of a batch.

    Raise CorruptStateError if one cannot be read, InvalidJobError for a version that this program does not know.
    """
    version, *_ = offsets.split("\n")
    if version != "v1":
        msg = (
            "the offset log of this query has a version that is not taken over, as one has whose sources have names. "
            f"Nothing was imported. Run the job from the beginning. folder={folder}, version={version[:20]}"
        )
        raise InvalidJobError(msg)
    try:
        _, head, *lines = offsets.split("\n")
        metadata = json.loads(head)
        ended = json.loads(commit.split("\n", maxsplit=1)[1])
        watermark_ms = int(metadata["batchWatermarkMs"])
        return SparkProgress(
            batch=batch,
            watermark_ms=watermark_ms,
            next_watermark_ms=max(watermark_ms, int(ended.get("nextBatchWatermarkMs", 0))),
            timestamp_ms=int(metadata["batchTimestampMs"]),
            lines=tuple(lines),
            conf=dict(metadata.get("conf", {})),
            has_state=has_state,
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _damaged(folder, f"offsets/{batch} or commits/{batch}", "cannot be read") from error


def _damaged(folder: str, file: str, why: str) -> CorruptStateError:
    return CorruptStateError(
        f"an entry of Spark's log {why}, so what the query has read is not known. Nothing was imported. Take another "
        f"copy of the checkpoint folder. folder={folder}, entry={file}"
    )
