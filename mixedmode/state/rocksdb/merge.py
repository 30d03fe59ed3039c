"""Merge neighbouring runs of one state into one run with the newest value of each key, within some key groups.

RocksDB can merge all runs: they are ingested into a temporary database, oldest first, and read back in key order.
Entries of other key groups are left out, so a merge of one run cuts this run to the key groups. If all runs have
columns on this machine, they are merged from the columns (column_merge.py), without a Python object per entry read.

A tombstone is a special value in a run (`writer.TOMBSTONE`). A merge keeps tombstones if older runs exist, and drops
them otherwise.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from rocksdict import IngestExternalFileOptions, Rdict, ReadOptions

from mixedmode.keys import KeyGroupRange
from mixedmode.state.arrow_bytes import none_count, present, values_at
from mixedmode.state.keys import range_of_groups
from mixedmode.state.rocksdb.column_merge import newest_entries
from mixedmode.state.rocksdb.columns import RunColumns
from mixedmode.state.rocksdb.options import merge_options
from mixedmode.state.rocksdb.replica import WantedRun, building
from mixedmode.state.rocksdb.writer import TOMBSTONE, LocalRun, RunWriter

_BATCH_ENTRIES = 50_000

_Entries = tuple[Sequence[bytes], Sequence[bytes | None]]  # keys, and their values, None for a deleted key; not empty


def merge_runs(
    folder: Path,
    runs: Sequence[WantedRun],
    *,
    state_id: int,
    groups: KeyGroupRange,
    keeps_tombstones: bool,
    writer: RunWriter,
) -> LocalRun | None:
    """Return one run with the newest entry of each key of `runs` in `groups`; None if there is no entry.

    `runs` are ordered oldest first. `folder` is scratch space on a local disk. Raises RetryableError if writing to the
    disk fails.
    """
    with building(folder):
        folder.mkdir(parents=True, exist_ok=True)
        database = Rdict(str(folder / "db"), options=merge_options())
        try:
            _ingest(database, folder, runs)
            _write(_batches(database, groups), writer, state_id, keeps_tombstones=keeps_tombstones)
        finally:
            database.close()
    return _finished(writer)


def count_live(folder: Path, runs: Sequence[WantedRun], *, groups: KeyGroupRange) -> int:
    """Return how many keys of `runs`, oldest first, are in `groups` and not deleted. All entries are read.

    `folder` is scratch space on a local disk, as large as the runs.
    """
    with building(folder):
        folder.mkdir(parents=True, exist_ok=True)
        database = Rdict(str(folder / "db"), options=merge_options())
        try:
            _ingest(database, folder, runs)
            return sum(value != TOMBSTONE for _, value in _entries(database, groups))
        finally:
            database.close()


def merge_columns(
    runs: Sequence[RunColumns], *, state_id: int, keeps_tombstones: bool, writer: RunWriter
) -> LocalRun | None:
    """As `merge_runs`, for whole runs in columns, oldest first, with keys of one length."""
    _write(newest_entries(runs), writer, state_id, keeps_tombstones=keeps_tombstones)
    return _finished(writer)


def _ingest(database: Rdict, folder: Path, runs: Sequence[WantedRun]) -> None:
    options = IngestExternalFileOptions()
    options.set_move_files(True)
    for run in runs:
        copy = folder / "incoming.sst"
        run.fetch(copy)
        if copy.exists():
            database.ingest_external_file([str(copy)], options)
            copy.unlink(missing_ok=True)


def _write(batches: Iterator[_Entries], writer: RunWriter, state_id: int, *, keeps_tombstones: bool) -> None:
    is_empty, last_key = True, b""
    for keys, values in batches:
        if keeps_tombstones or not none_count(values):
            writer.write(state_id, keys, values)
            is_empty = False
        else:
            kept = present(values)
            writer.write(state_id, values_at(keys, kept), values_at(values, kept))
            is_empty = is_empty and not len(kept)
        last_key = keys[-1]
    if is_empty and last_key:
        # Every key is deleted. One tombstone stays, so that the merged run exists and a replica can count it as held.
        # Otherwise a state that is emptied again and again (timers) would force a rebuild of the replica each time.
        writer.write(state_id, [last_key], [None])


def _finished(writer: RunWriter) -> LocalRun | None:
    merged = writer.finish()
    assert len(merged) <= 1, merged
    return merged[0] if merged else None


def _batches(database: Rdict, groups: KeyGroupRange) -> Iterator[_Entries]:
    entries = _entries(database, groups)
    while batch := list(islice(entries, _BATCH_ENTRIES)):
        yield [key for key, _ in batch], [None if value == TOMBSTONE else value for _, value in batch]


def _entries(database: Rdict, groups: KeyGroupRange) -> Iterator[tuple[bytes, bytes]]:
    first, after = range_of_groups(groups.start, groups.end)
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(after)
    at = database.iter(bounds)
    at.seek(first)
    while at.valid():
        yield at.key(), at.value()
        at.next()
    at.status()  # raises if damage ended the loop; `Rdict.items` would just stop there
