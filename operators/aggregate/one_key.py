"""The results of one key from its stored value, without arrays: for reads of a few keys, whose arrays cost most of it.

Only counts, sums, means and integers that are kept as they are have such a function. All others are left to
`Aggregator.results`.

Invariant (tests/operators/test_one_key.py): the results are those of `Aggregator.results`.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mixedmode.operators.aggregate.aggregator import Aggregator
from mixedmode.operators.aggregate.registers import Register
from mixedmode.operators.aggregate.results import (
    CountResult,
    ExactSumResult,
    FloatMean,
    FloatSumResult,
    IntegerMean,
    OrderedResult,
)
from mixedmode.operators.aggregate.values import LIMB_BITS
from mixedmode.state.codec import SCHEMA_ID, VERSION

__all__ = ["OneKey", "one_key"]

OneKey = Callable[[bytes], Sequence[Any] | None]
_Fields = Sequence[Any]  # of a stored value; None is NULL
_Result = Callable[[_Fields], Any]


def one_key(aggregator: Aggregator) -> OneKey | None:
    """Return a function from a stored value to its results; None if a result needs arrays.

    The function returns None for a value that `Aggregator.results` has to read or to refuse.
    """
    fields = [field.type for field in aggregator.state_fields]
    if not fields or any(pa.types.is_large_binary(kind) for kind in fields):
        return None
    places, at = dict[Register, int](), 0
    for register in aggregator.registers:
        places[register] = at
        at += len(register.fields)
    found = [_result(function.result, places) for function in aggregator.outputs.values()]
    results = [result for result in found if result is not None]
    if len(results) < len(found):
        return None
    bitmap_bytes = (len(fields) + 7) // 8
    layout = struct.Struct(f"<BB{bitmap_bytes}s" + "".join("q" if pa.types.is_int64(kind) else "d" for kind in fields))
    all_valid = ((1 << len(fields)) - 1).to_bytes(bitmap_bytes, "little")

    def of_one(value: bytes) -> Sequence[Any] | None:
        if len(value) != layout.size:
            return None
        version, schema, bitmap, *numbers = layout.unpack(value)
        if (version, schema) != (VERSION, SCHEMA_ID):
            return None
        if bitmap != all_valid:
            valid = int.from_bytes(bitmap, "little")
            numbers = [number if valid >> index & 1 else None for index, number in enumerate(numbers)]
        try:
            return [result(numbers) for result in results]
        except OverflowError:
            return None

    return of_one


def _result(result: object, places: Mapping[Register, int]) -> _Result | None:
    match result:
        case CountResult(count):
            return _field(places[count])
        case OrderedResult(register, data_type) if pa.types.is_signed_integer(data_type):
            return _field(places[register] + len(register.fields) - 1)
        case FloatSumResult(total, seen):
            return _if_seen(places[seen], _field(places[total]))
        case FloatMean(total, seen):
            return _mean(places[seen], _field(places[total]))
        case IntegerMean(total, seen) if total.limbs == 2:
            low = places[total]
            return _mean(places[seen], lambda fields: float(fields[low + 1]) * 2.0**LIMB_BITS + float(fields[low]))
        case ExactSumResult(total, seen, result_type) if total.limbs == 2 and pa.types.is_int64(result_type):
            return _if_seen(places[seen], _whole(places[total]))
    return None


def _field(place: int) -> _Result:
    return lambda fields: fields[place]


def _if_seen(seen: int, result: _Result) -> _Result:
    return lambda fields: result(fields) if fields[seen] else None


def _mean(seen: int, total: _Result) -> _Result:
    return _if_seen(seen, lambda fields: total(fields) / fields[seen])


def _whole(low: int) -> _Result:
    """Return the integer in two limbs.  Raises OverflowError if it does not fit an int64."""

    def whole(fields: _Fields) -> int:
        high: int = fields[low + 1]
        if not -(2 ** (LIMB_BITS - 1)) <= high < 2 ** (LIMB_BITS - 1):
            raise OverflowError
        return int(fields[low]) + (high << LIMB_BITS)

    return whole
