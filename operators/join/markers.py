"""Keys that a join has to look at because a time has come, without a row of theirs in the epoch."""

from collections.abc import Iterator

import pyarrow as pa

from mixedmode.operators.interface import SubtaskContext
from mixedmode.operators.join.layout import JoinLayout
from mixedmode.operators.top.rows import without_prefix
from mixedmode.operators.window.keys import TIME_BYTES
from mixedmode.operators.window.stored import stored_in
from mixedmode.sort import sort_table
from mixedmode.state.keys import PREFIX_BYTES

__all__ = ["MARKER", "marker_tables"]

MARKER = 2  #: in place of a side: a row that only says that its key is due


def marker_tables(
    layout: JoinLayout, state_id: int, due_us: tuple[int, int], context: SubtaskContext, *, bytes_after: int = 0
) -> Iterator[pa.Table]:
    """Yield a marker, for the sorter, for each entry (time, key) of a state.  due_us: its time is in (after, up to].

    bytes_after: the length of what follows the key of an entry.
    """
    for found in stored_in(context, state_id, [due_us]):
        keys = without_prefix(found.keys, PREFIX_BYTES + TIME_BYTES, bytes_after=bytes_after)
        yield sort_table(layout.marker_table(found.groups(), keys, MARKER))
