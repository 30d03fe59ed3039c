"""Going back to an older checkpoint, and Spark's log as a start finds it.

The one idea: what shows that a job has to go back (a damaged or missing manifest, an output that is ahead) goes away
last, so a start that is killed in the middle is completed by the next one, which sees the same and decides the same.
The steps, each of which may be repeated:

    1  record that this start goes back (lineage.py): what older starts commit from now on does not count
    2  take back the outputs of later epochs
    3  delete what Spark's log has of later epochs (spark_log.py says in which order)
    4  delete the manifests of later epochs, the newest first

Runs of the dropped epochs stay; once their epochs are committed anew, nothing names them, and the collector finds them.

A start that was overtaken by a newer one stops before the next step. Between its last look and its deletion it may
still delete what the newer one has written: that is then missing, so it is found and the job goes back once more.

Invariants (tests/checkpoint/test_go_back.py):
  I1  killed after any single deletion, the next start ends in the same folder as one that was not killed
  I2  nothing of the epoch that is gone back to, or of an older one, is deleted
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


def go_back(log: CheckpointLog, to: Manifest, back: GoingBack, *, take_back: Callable[[Epoch], int]) -> int:
    """Make `to` the newest checkpoint; how many files of outputs were taken back.

    to: whole, as verified. back: the record of this start. take_back: takes back the outputs after an epoch. Raises
    FencedError when a newer start of the job is there.
    """
    assert back.to == to.epoch, (back, to.epoch)
    log.check_newest(to.epoch, own=back.generation)
    log.record_going_back(back)
    taken_back = take_back(to.epoch)
    reach("go-back", to.epoch)
    log.check_newest(to.epoch, own=back.generation)
    log.store.delete(files_after(spark_listing(log), to.epoch, ends_of(to.source_logs)))
    log.check_newest(to.epoch, own=back.generation)
    later = [epoch for epoch in reversed(log.epochs()) if epoch > to.epoch]
    log.store.delete([paths.manifest_path(epoch) for epoch in later])
    return taken_back


def spark_listing(log: CheckpointLog) -> tuple[str, ...]:
    """The names of Spark's log, relative to the checkpoint folder."""
    return tuple(path for path, _ in log.store.list(paths.SPARK))


def repair_spark_log(log: CheckpointLog, retained: Sequence[Manifest]) -> tuple[str, ...]:
    """Write anew what is missing or damaged of Spark's log and need not be restored; the names of what was.

    retained: the manifests there are, oldest to newest; the newest is the one from which the start goes on.

    * The offsets of committed epochs stand in their manifests. Spark reads those of the newest epoch and of the one
      before. The latter only serve to repeat the newest epoch, whose rows are not read again: any offsets will do.
    * A damaged entry of the epoch under way, or one that says that an epoch is over, may go: Spark fixes a new range
      for the one (nothing of that epoch counts yet), and hands the other over again (it is published once more).
    * Spark's metadata are an id under which it reports; any will do, but there has to be one.
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
    """is_known: whether `text` is what Spark wrote, so that any other is damage."""
    data = log.store.get(path)
    checksum = paths.spark_checksum_path(path)
    if data is not None and not _is_damaged(log, path, data) and (data == text.encode() or not is_known):
        return False
    log.store.delete([checksum])  # of what was there; without one, an entry is taken as it is
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
