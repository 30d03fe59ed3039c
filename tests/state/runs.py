"""Runs and replicas for the tests of the RocksDB state."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from rocksdict import Rdict

from mixedmode.state.fixed_bytes import FixedBytes
from mixedmode.state.rocksdb import LocalRun, Replica, RunWriter
from mixedmode.state.rocksdb.options import merge_options
from mixedmode.state.rocksdb.replica import WantedRun

Entries = Mapping[bytes, bytes | None]  # None for a deleted key


def write_run(folder: Path, entries: Entries, *, state_id: int = 0) -> LocalRun:
    """A finished run with these entries."""
    keys = sorted(entries)
    with RunWriter(folder) as writer:
        writer.write(state_id, keys, [entries[key] for key in keys])
        (run,) = writer.finish()
    return run


def wanted_runs(folder: Path, runs: Sequence[Entries]) -> list[WantedRun]:
    """Committed runs in `folder`, oldest first."""
    written = [write_run(folder / str(number), entries) for number, entries in enumerate(runs)]
    return [WantedRun(f"run-{number}", partial(os.link, run.path)) for number, run in enumerate(written)]


def laid_over(runs: Sequence[Entries]) -> dict[bytes, bytes]:
    """Return the contents of the runs, the later over the earlier."""
    state: dict[bytes, bytes | None] = {}
    for entries in runs:
        state.update(entries)
    return {key: value for key, value in sorted(state.items()) if value is not None}


def entries_of(file: Path) -> dict[bytes, bytes]:
    """All that the file of a run holds, in key order, tombstones (empty values) included."""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        copy = Path(shutil.copy(file, folder))
        database = Rdict(f"{folder}/db", options=merge_options())
        database.ingest_external_file([str(copy)])
        entries: dict[bytes, bytes] = dict(database.items())  # type: ignore[arg-type]
        database.close()
    return entries


def fixed(values: Sequence[bytes], width: int) -> FixedBytes:
    """Values of `width` bytes in one array."""
    return FixedBytes(np.frombuffer(b"".join(values), np.uint8).reshape(len(values), width))


def contents(replica: Replica) -> dict[bytes, bytes]:
    """Return the contents of a replica without tombstones."""
    entries, found = replica.database.iter(), dict[bytes, bytes]()
    entries.seek_to_first()
    while entries.valid():
        if entries.value():
            found[entries.key()] = entries.value()
        entries.next()
    entries.status()
    return found


def keys_of_groups(groups: int = 3) -> st.SearchStrategy[bytes]:
    """Stored keys of state 0 in a few key groups."""
    key = st.lists(st.sampled_from([b"\x00", b"\xff", b"a"]), max_size=3).map(b"".join)
    return st.builds(lambda group, rest: bytes([0, group, 0]) + rest, st.integers(0, groups - 1), key)


def run_entries(max_size: int = 8) -> st.SearchStrategy[dict[bytes, bytes | None]]:
    """Entries of one run; often deleted keys."""
    value = st.none() | st.binary(min_size=1, max_size=3)
    return st.dictionaries(keys_of_groups(), value, min_size=1, max_size=max_size)
