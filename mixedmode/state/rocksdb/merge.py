"""Merges neighbouring runs of one state into one run, newest value first. RocksDB does the merging.

The runs are ingested into a database of their own, oldest first, and read back in order. Tombstones are values of their
own in a run (`writer.TOMBSTONE`), so they survive the merge when older runs lie below it, and go when none does.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from rocksdict import IngestExternalFileOptions, Rdict

from mixedmode.state.rocksdb.options import replica_options
from mixedmode.state.rocksdb.replica import WantedRun, building
from mixedmode.state.rocksdb.writer import TOMBSTONE, LocalRun, RunWriter

_BATCH_ENTRIES = 50_000


def merge_runs(
    folder: Path, runs: Sequence[WantedRun], *, state_id: int, keeps_tombstones: bool, writer: RunWriter
) -> LocalRun:
    """One run with the newest entry of each key of `runs`, which are oldest first and not all without entries.

    `folder` is scratch space on a local disk. Raises RetryableError when the disk does not take it.
    """
    with building(folder):
        folder.mkdir(parents=True, exist_ok=True)
        database = Rdict(str(folder / "db"), options=replica_options())
        try:
            _ingest(database, folder, runs)
            _copy(database, writer, state_id, keeps_tombstones=keeps_tombstones)
        finally:
            database.close()
    (merged,) = writer.finish()
    return merged


def _ingest(database: Rdict, folder: Path, runs: Sequence[WantedRun]) -> None:
    options = IngestExternalFileOptions()
    options.set_move_files(True)
    for run in runs:
        copy = folder / "incoming.sst"
        run.fetch(copy)
        database.ingest_external_file([str(copy)], options)
        copy.unlink(missing_ok=True)


def _copy(database: Rdict, writer: RunWriter, state_id: int, *, keeps_tombstones: bool) -> None:
    entries = _entries(database)
    is_empty, last_key = True, b""
    while batch := list(islice(entries, _BATCH_ENTRIES)):
        kept = [(key, value) for key, value in batch if keeps_tombstones or value != TOMBSTONE]
        writer.write(state_id, [key for key, _ in kept], [value for _, value in kept])
        is_empty, last_key = is_empty and not kept, batch[-1][0]
    if is_empty:  # every key is deleted; a run is never empty, so one tombstone stays
        writer.write(state_id, [last_key], [TOMBSTONE])


def _entries(database: Rdict) -> Iterator[tuple[bytes, bytes]]:
    at = database.iter()
    at.seek_to_first()
    while at.valid():
        yield at.key(), at.value()
        at.next()
    at.status()  # raises if damage ended the loop; `Rdict.items` would just stop there
