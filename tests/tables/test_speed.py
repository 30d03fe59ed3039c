"""A backlog is loaded fast enough, also on a machine that is busy; for figures see bench/micro/test_tables.py."""

import time

import numpy as np
import pyarrow as pa

from mixedmode.checkpoint.types import Epoch
from tests.tables.places import Place

ROWS = 100_000
ROWS_PER_SECOND_MIN = 15_000  # each row that is replaced is also kept for going back


def test_a_hundred_thousand_rows_take_seconds(place: Place) -> None:
    fields = [pa.field("k", pa.int64()), pa.field("t", pa.string()), pa.field("d", pa.float64())]
    sink = place.sink()
    sink.prepare(fields, ["k"], is_fresh=True)
    keys = np.random.default_rng(1).permutation(ROWS)
    columns = {"k": keys, "t": pa.array(keys).cast(pa.string()), "d": keys / 7, "_op": ["upsert"] * ROWS}
    seconds = list[float]()
    for epoch in (0, 1):
        file = place.stage_table(sink, epoch, pa.table(columns))
        started = time.monotonic()
        sink.publish(Epoch(epoch), [file])
        seconds.append(time.monotonic() - started)
    assert min(seconds) < ROWS / ROWS_PER_SECOND_MIN, "something else may slow one of them"
    assert place.sql("SELECT count(*), count(DISTINCT t), sum(k) FROM totals") == [(ROWS, ROWS, ROWS * (ROWS - 1) // 2)]
