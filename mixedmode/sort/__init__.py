"""The external sorter: it sorts keyed rows by (key group, key, time) within a memory budget. Pure."""

from mixedmode.sort.columns import KEY, KEY_GROUP, TIME, RowKey
from mixedmode.sort.external import EMIT_BYTES, ExternalSorter, SortStats, Undivided
from mixedmode.sort.merge import merge_runs
from mixedmode.sort.order import check_sorted, sort_order, sort_table, take_rows
from mixedmode.sort.runs import Run, read_run, write_run
from mixedmode.sort.tables import Combine, joined, slices

__all__ = [
    "EMIT_BYTES",
    "KEY",
    "KEY_GROUP",
    "TIME",
    "Combine",
    "ExternalSorter",
    "RowKey",
    "Run",
    "SortStats",
    "Undivided",
    "check_sorted",
    "joined",
    "merge_runs",
    "read_run",
    "slices",
    "sort_order",
    "sort_table",
    "take_rows",
    "write_run",
]
