"""Names of numpy types for keyed code, and a view of an Arrow buffer."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

AnyNumpy = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]


def from_buffer(buffer: pa.Buffer | None, dtype: npt.DTypeLike, *, count: int, start: int = 0) -> AnyNumpy:
    """View `count` values of an Arrow buffer, from the value number `start` on. Read-only, without a copy.

    Arrow may leave out the buffers of an empty array: then `count` must be 0.
    """
    type_ = np.dtype(dtype)
    if count == 0:
        return np.empty(0, dtype=type_)
    assert buffer is not None, count
    view: AnyNumpy = np.frombuffer(buffer, dtype=type_, count=count, offset=start * type_.itemsize)
    return view


def bytes_of_values(column: pa.Array | pa.ChunkedArray) -> I64:
    """Return the bytes of each value (n,), without those of offsets; NULL has none in a text."""
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.int64), *map(bytes_of_values, column.chunks)])
    if pa.types.is_struct(kind):
        return sum(map(bytes_of_values, column.flatten()), np.zeros(len(column), np.int64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(bytes_of_values(column.values))])
        lists: I64 = np.diff(ends[column.offsets.to_numpy()])
        return lists
    texts = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    if any(is_kind(kind) for is_kind in texts):
        lengths: I64 = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
        return lengths
    return np.full(len(column), 0 if pa.types.is_null(kind) else -(-kind.bit_width // 8), np.int64)


def elements_of(column: pa.Array) -> pa.Array:
    """Return the elements of all arrays, or the entries of all maps as structs, without those below a NULL."""
    kind = column.type
    if pa.types.is_map(kind):  # Arrow flattens no map
        column = column.view(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    return column.flatten()


def cast(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column, or an array, in a type. Raise pa.ArrowException if a value does not fit without loss.

    Arrow itself makes a float that is too large infinite, a timestamp a date or a time, the number 2 true, and 1.555
    the decimal 1.55; and it leaves out fields that a struct of the type does not have.
    """
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([cast(chunk, data_type) for chunk in column.chunks], data_type)
    found = column.cast(data_type)
    _check_kept(column, found)
    return found


def _check_kept(column: pa.Array, found: pa.Array) -> None:
    """Raise pa.ArrowException if values of a column, or values in them, are not the same in another type."""
    before, after = column.type, found.type
    if pa.types.is_null(before) or before == after:
        return
    if pa.types.is_struct(after):
        if {field.name for field in before} != {field.name for field in after}:
            msg = f"the fields of {before} are others than those of {after}"
            raise pa.ArrowInvalid(msg)
        values = dict(zip((field.name for field in before), column.flatten(), strict=True))
        for field, part in zip(after, found.flatten(), strict=True):
            _check_kept(values[field.name], part)
    elif pa.types.is_map(after):
        for part, new in zip(elements_of(column).flatten(), elements_of(found).flatten(), strict=True):
            _check_kept(part, new)
    elif pa.types.is_nested(after):
        _check_kept(elements_of(column), elements_of(found))
    elif pa.types.is_floating(before) and pa.types.is_floating(after):
        if pc.sum(pc.is_inf(column)).as_py() != pc.sum(pc.is_inf(found)).as_py():
            msg = f"a number is too large for {after}"
            raise pa.ArrowInvalid(msg)
    elif _is_coarser(before, after) and not found.cast(before).equals(column):
        msg = f"a value of {before} would lose something as {after}"
        raise pa.ArrowInvalid(msg)


def _is_coarser(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether Arrow converts to a type also values that the type cannot hold."""
    if pa.types.is_boolean(after):
        return not _is_text(before)
    if pa.types.is_date(after) or pa.types.is_time(after):
        return bool(pa.types.is_timestamp(before))
    return bool(pa.types.is_decimal(after) and pa.types.is_floating(before))


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))
