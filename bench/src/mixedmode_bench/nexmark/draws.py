"""Randomness that is a function of the event's number: any event can be drawn without those before it.

A draw is SplitMix64's output function over a counter, which is made of the event's number and of what the
draw is for. So a slice of the stream, made anywhere and in any order, is the same as when the whole is made.

Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014, section 4.
"""

from typing import Any, TypeAlias

import numpy as np

Int64s: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
UInt64s: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
Doubles: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

PURPOSES = 32  # draws that an event can have
_SEED_STRIDE = 2**58  # counters between two seeds; more than PURPOSES times any number of events
_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
_LOW_32 = np.uint64(0xFFFF_FFFF)


def draw(numbers: Int64s, purpose: int, seed: int) -> UInt64s:
    """64 random bits for each event: (n,) -> (n,). Another purpose, or another seed below 64, has other bits."""
    assert 0 <= purpose < PURPOSES, purpose
    assert 0 <= seed < 64, seed
    bits = numbers.astype(np.uint64)
    bits *= np.uint64(PURPOSES)
    bits += np.uint64(seed * _SEED_STRIDE + purpose + 1)
    bits *= _GOLDEN_GAMMA
    bits ^= bits >> np.uint64(30)
    bits *= _FIRST_FACTOR
    bits ^= bits >> np.uint64(27)
    bits *= _SECOND_FACTOR
    bits ^= bits >> np.uint64(31)
    return bits


def unit(bits: UInt64s) -> Doubles:
    """Doubles evenly from [0, 1), of the upper 53 bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def low_below(bits: UInt64s, limits: int | Int64s) -> Int64s:
    """Integers evenly from [0, limit), of the lower 32 bits. Limits are far below 2^32, so the bias is, too."""
    return _scaled(bits & _LOW_32, limits)


def high_below(bits: UInt64s, limits: int | Int64s) -> Int64s:
    """Integers evenly from [0, limit), of the upper 32 bits."""
    return _scaled(bits >> np.uint64(32), limits)


def _scaled(parts: UInt64s, limits: int | Int64s) -> Int64s:
    scaled: Int64s = (parts.view(np.int64) * limits) >> 32
    return scaled
