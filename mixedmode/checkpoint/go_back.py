"""Go back to an older checkpoint, and repair Spark's log before the first epoch of a start.

The evidence that a job has to go back (a damaged or missing manifest, an output that is ahead) is removed
last. If a start is killed in the middle, the next start sees the same evidence, makes the same decision, and completes
the work. The steps, each of which may be repeated:

    1  record that this start goes back (lineage.py): manifests that older starts commit from now on do not count
    2  roll back the outputs of later epochs
    3  delete the entries of later epochs from Spark's log (spark_log.py defines the order)
    4  delete the manifests of later epochs, the newest first

Runs of the dropped epochs stay. Once these epochs are committed again, no manifest names the old runs, and the garbage
collector deletes them.

A start stops before its next step if a newer start exists. Between its last check and its deletion it may still delete
a file of the newer start. The next start then finds that this file is missing, and the job goes back once more.

Invariants (tests/checkpoint/test_go_back.py):
  I1  if a start is killed after any single deletion, the next start ends in the same folder as an uninterrupted start
  I2  nothing of the epoch that the job goes back to, or of an older epoch, is deleted
"""

import json
import uuid
from collections.abc import Callable, Sequence

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.source_log import ends_of
from mixedmode.checkpoint.spark_log import entry_problem, files_after
from mixedmode.checkpoint.types import Epoch, GoingBack, Manifest
from mixedmode.crash_points import reach

__all__ = ["go_back", "repair_spark_log", "spark_listing"]


def go_back(log: CheckpointLog, to: Manifest, back: GoingBack, *, roll_back: Callable[[Epoch], int]) -> int:
    """Make `to` the newest checkpoint; return the number of output files that were rolled back.

    to: a manifest that was verified to be whole. back: the record of this start. roll_back: rolls back the outputs of
    all epochs after the given one, and returns the number of files. Raises FencedError if a newer start of the job
    exists.
    """
    assert back.to == to.epoch, (back, to.epoch)
    log.check_newest(to.epoch, own=back.generation)
    log.record_going_back(back)
    rolled_back = roll_back(to.epoch)
    reach("go-back", to.epoch)
    log.check_newest(to.epoch, own=back.generation)
    log.store.delete(files_after(spark_listing(log), to.epoch, ends_of(to.source_logs)))
    log.check_newest(to.epoch, own=back.generation)
    later = [epoch for epoch in reversed(log.epochs()) if epoch > to.epoch]
    log.store.delete([paths.manifest_path(epoch) for epoch in later])
    return rolled_back


def spark_listing(log: CheckpointLog) -> tuple[str, ...]:
    """Return the paths of the files of Spark's log, relative to the checkpoint folder."""
    return tuple(path for path, _ in log.store.list(paths.SPARK))


def repair_spark_log(log: CheckpointLog, retained: Sequence[Manifest]) -> tuple[str, ...]:
    """Repair the missing or damaged files of Spark's log that can be rebuilt; return the paths of the repaired files.

    retained: the existing manifests, oldest to newest; the start goes on from the newest of them.

    * Offsets: the manifests of committed epochs hold their offsets. Spark reads the offsets of the newest epoch and of
      the epoch before. It needs the latter only to repeat the newest epoch, whose rows are not read again. So any
      offsets will do for the epoch before.
    * The offsets of the epoch in progress: a damaged entry is deleted. Spark then plans a new range for the epoch,
      which is safe because nothing of the epoch is committed.
    * Commit entries: a damaged entry is deleted. Spark then runs its epoch again, which only publishes it once more.
    * Spark's metadata hold the id under which Spark reports. Any id will do, but the file has to exist.
    """
    newest = retained[-1]
    if newest.is_final:  # Spark has no entry for it, and does not start any more
        return ()
    before = next((one for one in retained if one.epoch == newest.epoch - 1), None)
    known = {paths.spark_offsets_path(one.epoch): one.offsets for one in (before, newest) if one is not None}
    wanted = {paths.SPARK_METADATA: _metadata(log), **known}
    if newest.epoch > 0:
        wanted.setdefault(paths.spark_offsets_path(Epoch(newest.epoch - 1)), newest.offsets)
    unneeded = [paths.spark_offsets_path(Epoch(newest.epoch + 1))]
    unneeded += [paths.spark_commits_path(Epoch(epoch)) for epoch in (newest.epoch - 1, newest.epoch) if epoch >= 0]
    repaired = [path for path, text in wanted.items() if _rewrite_if_damaged(log, path, text, is_known=path in known)]
    repaired += [path for path in unneeded if _delete_if_damaged(log, path)]
    return tuple(repaired)


def _metadata(log: CheckpointLog) -> str:
    return json.dumps({"id": str(uuid.uuid5(uuid.NAMESPACE_URL, log.store.url))})


def _rewrite_if_damaged(log: CheckpointLog, path: str, text: str, *, is_known: bool) -> bool:
    """Write `text` to `path` if the entry there is missing or damaged; return whether it was written.

    is_known: `text` is exactly what Spark wrote, so any other content is damage.
    """
    data = log.store.get(path)
    checksum = paths.spark_checksum_path(path)
    if data is not None and not _is_damaged(log, path, data) and (data == text.encode() or not is_known):
        return False
    log.store.delete([checksum])  # it belongs to the old content; an entry without a checksum file is accepted as it is
    log.store.put(path, text.encode())
    return True


def _delete_if_damaged(log: CheckpointLog, path: str) -> bool:
    data = log.store.get(path)
    if data is None or not _is_damaged(log, path, data):
        return False
    log.store.delete([path, paths.spark_checksum_path(path)])
    return True


def _is_damaged(log: CheckpointLog, path: str, data: bytes) -> bool:
    checksum = log.store.get(paths.spark_checksum_path(path))
    return entry_problem(data, checksum, has_version=path != paths.SPARK_METADATA) is not None
