"""Nexmark's events as Parquet files: a folder per table, several files in each, one after the other in time.

Beside them is the side input of query 13, one file with a text for each of its keys.

A file is a slice of the stream, so the files of a table do not overlap in time, nor in new ids.
"""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode_bench.nexmark.generator import Settings, make_events

TABLES = ("person", "auction", "bid")
FILES = 16  # of each table
SIDE_INPUT, SIDE_INPUT_ROWS = "side_input", 10_000
_BLOCK_EVENTS = 250_000  # made at a time, and a row group of bids
_FIRST_FILE_S = 1_700_000_000
#: columns whose values come again and again; looking for repeats in the others would only take time
_REPEATED = ("name", "city", "state", "seller", "category", "auction", "bidder", "channel", "url")


def write_events(folder: Path, events: int, settings: Settings, *, files: int = FILES) -> None:
    """The first `events` events, in `folder`."""
    for name in TABLES:
        (folder / name).mkdir(parents=True)
    _write_side_input(folder / SIDE_INPUT)
    for number in range(files):
        _write_files(folder, number, range(events * number // files, events * (number + 1) // files), settings)


def _write_side_input(folder: Path) -> None:
    folder.mkdir()
    keys = pa.array(range(SIDE_INPUT_ROWS), pa.int64())
    rows = pa.table({"key": keys, "value": pa.array([f"value-{key}" for key in range(SIDE_INPUT_ROWS)])})
    pq.write_table(rows, folder / f"{SIDE_INPUT}-0000.parquet", store_schema=False)


def _write_files(folder: Path, number: int, events: range, settings: Settings) -> None:
    """A file per table. Readers that go by the age of a file take them in the order of their numbers."""
    paths = {name: folder / name / f"{name}-{number:04d}.parquet" for name in TABLES}
    writers: dict[str, pq.ParquetWriter] = {}
    for first in range(events.start, max(events.stop, events.start + 1), _BLOCK_EVENTS):
        made = make_events(first, min(_BLOCK_EVENTS, events.stop - first), settings)
        for name in TABLES:
            table: pa.Table = getattr(made, name)
            if name not in writers:
                repeated = [column for column in table.column_names if column in _REPEATED]
                writers[name] = pq.ParquetWriter(paths[name], table.schema, use_dictionary=repeated, store_schema=False)
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()
    for path in paths.values():
        os.utime(path, (_FIRST_FILE_S + number, _FIRST_FILE_S + number))
