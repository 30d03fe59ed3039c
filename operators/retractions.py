"""The check that a retracted row was inserted before. A changed row is retracted by computing it again."""

import numpy as np
import numpy.typing as npt

from mixedmode.errors import InvalidJobError

__all__ = ["check_inserted"]


def check_inserted(counts: npt.NDArray[np.int64]) -> None:
    """Raise InvalidJobError if a number of rows is negative.  counts: how many there are of each, after an epoch.

    SQL and functions of a user are the only code that can compute another value of the same row.
    """
    below = int((counts < 0).sum())
    if below:
        msg = (
            "a row was retracted that was never inserted: sql or a function before this step computes something else "
            "of the same row than it did before. Undo the change of the function or of Spark's version, or make the "
            "function return the same value for the same arguments each time; else use a new checkpoint folder and a "
            f"new output folder. If none of these is the reason, it is a defect; report it. affected={below}"
        )
        raise InvalidJobError(msg)
