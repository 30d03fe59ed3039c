"""Random text as Arrow arrays, at the speed of copying it.

All text is cut out of a pool of random characters. Where to cut is drawn per string, so the strings of
two events differ; Arrow's string views name such cuts without copying, and turn into strings in one pass.
"""

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from mixedmode_bench.nexmark.draws import Int64s, draw, high_below, low_below

Characters: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

_POOL_SEED = 0  # the same text in every data set; where it is cut is the seed's to say
_POOL_BYTES = 4 * 1024 * 1024
_LENGTH_MAX = 1024  # of a string
_STARTS = _POOL_BYTES - _LENGTH_MAX
_INLINE_BYTES = 12  # Arrow keeps strings up to this length within their view
_BLANK_ONE_IN = 13


@cache
def letters() -> Characters:
    """The pool of a to z."""
    return _characters(purpose=0)


@cache
def words() -> Characters:
    """The pool in which one character of thirteen is a blank."""
    pool = _characters(purpose=0).copy()
    blanks = low_below(draw(np.arange(_POOL_BYTES), 1, _POOL_SEED), _BLANK_ONE_IN) == 0
    pool[blanks] = ord(" ")
    return pool


def cut(pool: Characters, bits: np.ndarray[Any, np.dtype[np.uint64]], shortest: int | Int64s, spread: int) -> pa.Array:
    """Strings of `shortest` to `shortest + spread - 1` characters, one for each of the random bits."""
    starts = low_below(bits, _STARTS)
    return cut_at(pool, starts, shortest + high_below(bits, spread))


def cut_at(pool: Characters, starts: Int64s, lengths: Int64s) -> pa.Array:
    """The strings [start, start + length) of the pool. Requires that each ends within it.

    A view is 16 bytes: the length, and either the characters, padded with zeros, or the first four of them, the number
    of the buffer and the place in it.
    """
    views = np.empty((len(starts), 4), np.int32)
    views[:, 0] = lengths
    views[:, 1:] = sliding_window_view(pool, _INLINE_BYTES)[starts].view(np.int32)
    is_long = lengths > _INLINE_BYTES
    if is_long.all():
        views[:, 2] = 0
        views[:, 3] = starts
    else:
        inline = views[:, 1:].copy().view(np.uint8)
        inline[np.arange(_INLINE_BYTES) >= lengths[:, None]] = 0
        views[:, 1:] = np.where(is_long[:, None], views[:, 1:], inline.view(np.int32))
        views[is_long, 2] = 0
        views[is_long, 3] = starts[is_long]
    buffers = [None, pa.py_buffer(views), pa.py_buffer(pool)]
    return pa.Array.from_buffers(pa.string_view(), len(starts), buffers).cast(pa.string())


@cache
def channels() -> pa.Array:
    """Names of the hot channels, then of all others."""
    return pa.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))])


@cache
def urls() -> pa.Array:
    """The address of each of `channels`: the same one in all of its bids. Nine of ten of the others end in their id."""
    numbers = np.arange(len(HOT_CHANNELS) + CHANNELS)
    folders = [cut(letters(), draw(numbers, purpose, _POOL_SEED), 3, 2).to_pylist() for purpose in (2, 3, 4)]
    has_id = low_below(draw(numbers, 5, _POOL_SEED), 10) > 0
    has_id[: len(HOT_CHANNELS)] = False
    return pa.array(
        [
            f"https://www.nexmark.com/{first}/{second}/{third}/item.htm?query=1"
            + (f"&channel_id={_channel_id(number - len(HOT_CHANNELS))}" if with_id else "")
            for number, first, second, third, with_id in zip(numbers.tolist(), *folders, has_id.tolist(), strict=True)
        ]
    )


@cache
def four_digits() -> pa.Array:
    """0000 to 9999."""
    return pa.array([f"{number:04d}" for number in range(10_000)])


def _characters(purpose: int) -> Characters:
    bits = draw(np.arange(_POOL_BYTES), purpose, _POOL_SEED)
    return (ord("a") + low_below(bits, 26)).astype(np.uint8)


def _channel_id(number: int) -> int:
    """The number with its 32 bits reversed, without its sign."""
    reverse = int(f"{number:032b}"[::-1], 2)
    return min(reverse, 2**32 - reverse)
