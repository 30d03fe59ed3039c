"""Frames that several actions read, which are computed once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

__all__ = ["Hold", "held"]

Hold = Callable[[DataFrame], DataFrame]


@contextmanager
def held() -> Iterator[Hold]:
    """Return a function that persists a frame until the end of the block."""
    frames: list[DataFrame] = []

    def hold(frame: DataFrame) -> DataFrame:
        frames.append(frame.persist())
        return frames[-1]

    try:
        yield hold
    finally:
        for frame in frames:
            frame.unpersist()
