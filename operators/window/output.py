"""The columns that windows add to the output."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

INSTANT = pa.timestamp("us", "UTC")
WINDOW_START = pa.field("window_start", INSTANT)
WINDOW_END = pa.field("window_end", INSTANT)
WINDOW_BOUNDS = (WINDOW_START, WINDOW_END)
WINDOW_NUMBER = pa.field("window_number", pa.int64())


def instants(times_us: npt.NDArray[np.int64]) -> pa.Array:
    """Return int64 microseconds (n,) as UTC timestamps (n,)."""
    return pa.array(times_us).view(INSTANT)
