"""Canonical key bytes: encode key columns as one binary column whose byte order is the order of the columns.

Each column becomes a marker byte (0x00 NULL, 0x01 value) and a payload that sorts as the value does. So
code that hashes, sorts, merges or stores a key does not depend on its types.

    int8..64, date32, timestamp   big-endian, sign bit flipped, at the type's own width
    bool                          1 byte, 0 or 1
    decimal128                    16 bytes big-endian, sign bit flipped
    float32, float64              -0.0 -> 0.0, every NaN -> one NaN; positive: sign bit flipped, negative: all bits
    string, binary                0x00 -> 0x00 0xFF, then 0x00 0x00
A NULL of fixed width keeps its width (payload zeros); a NULL string or binary is only its marker.

    Example: (int16 5, string "a") is 01 80 05 | 01 61 00 00.

Checkpoints store these bytes: a change of the layout requires a new version of every format that holds a key.

Source of the escape: FoundationDB tuple layer, https://github.com/apple/foundationdb/blob/main/design/tuple.md
Invariants (tests/keys/test_encode.py):
  I1  the byte order of keys is the column-wise order of their values, NULL first, NaN greatest
  I2  decode_keys(encode_keys(columns)) == columns, floats after normalisation
  I3  no key is a proper prefix of another key of the same schema
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.keys.arrow import I64, U8, AnyNumpy, Bools
from mixedmode.keys.rows import BinaryRows, binary_rows, cut, read_at
from mixedmode.keys.values import from_ordered, payload_words, to_ordered, valid_mask

_TYPES_KEPT = 1024  # a read of one key would work out the layout of its key several times
_NULL, _VALUE, _ZERO, _ESCAPED, _END = b"\x00", b"\x01", b"\x00", b"\x00\xff", b"\x00\x00"


@dataclass(frozen=True, slots=True)
class KeySchema:
    """The columns of a key, in order. The bytes depend on their types, but not on their names and nullability.

    Raises InvalidJobError (fix the job file) if there is no column, or if the type of a column cannot be a key.
    """

    fields: tuple[pa.Field, ...]

    def __post_init__(self) -> None:
        if not self.fields:
            msg = "a key needs at least one column, because rows are grouped by it. Name one in `key-by`. fields=()"
            raise InvalidJobError(msg)
        for field in self.fields:
            if not _is_variable(field.type) and payload_words(field.type) is None:
                raise InvalidJobError(_unsupported(field))

    @property
    def is_fixed_width(self) -> bool:
        """Return whether all keys have the same number of bytes."""
        return not any(_is_variable(field.type) for field in self.fields)

    @property
    def width(self) -> int | None:
        """Return the number of bytes of every key, or None if it varies."""
        return _record(self.fields).itemsize if self.is_fixed_width else None


def encode_keys(columns: Sequence[pa.Array], schema: KeySchema) -> pa.Array:
    """Encode n keys: arrays of length n in schema order -> (n,) fixed_size_binary(width), or large_binary. No NULLs.

    Arrays may be slices; their types must be exactly those of the schema.
    """
    pieces = key_pieces(columns, schema)
    return pieces[0] if schema.is_fixed_width else _join(pieces)


def key_pieces(columns: Sequence[pa.Array], schema: KeySchema) -> list[Any]:
    """Return the pieces of n keys, which are one after the other the bytes that `encode_keys` returns.

    A piece is an array (n,), or a constant that all keys have. A caller that adds more to keys joins all pieces at
    once, since each join copies all bytes. If the schema has a fixed width, the only piece is fixed_size_binary; else
    all pieces are large_binary.
    """
    assert [c.type for c in columns] == [f.type for f in schema.fields], (columns, schema)
    assert len({len(c) for c in columns}) == 1, [len(c) for c in columns]
    if schema.is_fixed_width:
        return [_encode_fixed(columns, schema.fields)]
    pieces: list[Any] = []
    for variable, first, last in _segments(schema):
        if variable:
            piece, *more = _encode_variable(columns[first])
            if pieces and isinstance(piece, pa.Scalar) and isinstance(pieces[-1], pa.Scalar):
                piece = _constant(pieces.pop().as_py() + piece.as_py())
            pieces += [piece, *more]
        else:
            pieces.append(_as_large_binary(_encode_fixed(columns[first:last], schema.fields[first:last])))
    return pieces


def decode_keys(keys: pa.Array, schema: KeySchema) -> list[pa.Array]:
    """Decode the keys of `encode_keys`: (n,) fixed_size_binary, binary or large_binary -> one array per column.

    Raises CorruptStateError (restore an older checkpoint) if the bytes are not keys of this schema.
    """
    assert keys.null_count == 0, keys.null_count
    rows = binary_rows(keys)
    at, columns = rows.starts, list[pa.Array]()
    for variable, first, last in _segments(schema):
        fields = schema.fields[first:last]
        _check_inside(rows, at + (1 if variable else _record(fields).itemsize), schema)
        if variable:
            valid = _valid(read_at(rows.data, "u1", at))
            start, end, at = _find_payloads(rows, at, valid, is_last=last == len(schema.fields))
            _check_inside(rows, at, schema)
            if (read_at(rows.data, "<u2", end if valid is None else end[valid]) != 0).any():  # the terminator
                raise CorruptStateError(_not_a_key(schema))
            columns.append(_restore(cut(rows.data, start, end, valid), schema, first))
        else:
            columns += _decode_fixed(rows, at, fields)
            at = at + _record(fields).itemsize
    if not np.array_equal(at, rows.ends):
        raise CorruptStateError(_not_a_key(schema))
    return columns


def key_widths(rows: pa.Array, schema: KeySchema, *, after: int) -> I64:
    """Return the (n,) lengths, in bytes, of the keys that begin at byte `after` of each row; any bytes may follow.

    `rows` is (n,) large_binary. Raises CorruptStateError as `decode_keys` does.
    """
    found = binary_rows(rows)
    begin = at = found.starts + after
    for variable, first, last in _segments(schema):
        _check_inside(found, at + 1, schema)
        if variable:
            *_, at = _find_payloads(found, at, _valid(read_at(found.data, "u1", at)), is_last=False)
        else:
            at = at + _record(schema.fields[first:last]).itemsize
        _check_inside(found, at, schema)
    return at - begin


def _segments(schema: KeySchema) -> Iterator[tuple[bool, int, int]]:
    """Yield (is variable, first, last + 1) of each piece: one variable column, or neighbouring fixed columns."""
    for variable, run in groupby(range(len(schema.fields)), key=lambda i: _is_variable(schema.fields[i].type)):
        indices = list(run)
        if variable:
            yield from ((True, i, i + 1) for i in indices)
        else:
            yield False, indices[0], indices[-1] + 1


@lru_cache(maxsize=_TYPES_KEPT)
def _is_variable(type_: pa.DataType) -> bool:
    checks: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(check(type_) for check in checks)


@lru_cache(maxsize=_TYPES_KEPT)
def _record(fields: tuple[pa.Field, ...]) -> np.dtype[Any]:
    """Return the layout of neighbouring fixed columns: per column i a marker `m{i}` and big-endian words `w{i}.{j}`."""
    names, formats = list[str](), list[str]()
    for i, field in enumerate(fields):
        words = payload_words(field.type)
        assert words is not None, field
        names += [f"m{i}", *(f"w{i}.{j}" for j in range(len(words)))]
        formats += ["u1", *(f">{word}" for word in words)]
    return np.dtype(list(zip(names, formats, strict=True)))


def _encode_fixed(columns: Sequence[pa.Array], fields: tuple[pa.Field, ...]) -> pa.Array:
    n, record = len(columns[0]), _record(fields)
    out = np.empty(n, dtype=record)
    for i, column in enumerate(columns):
        valid = valid_mask(column)
        out[f"m{i}"] = 1 if valid is None else valid
        for j, word in enumerate(to_ordered(column)):
            out[f"w{i}.{j}"] = word if valid is None else np.where(valid, word, word.dtype.type(0))
    return pa.Array.from_buffers(pa.binary(record.itemsize), n, [None, pa.py_buffer(out)])


def _decode_fixed(rows: BinaryRows, at: I64, fields: tuple[pa.Field, ...]) -> list[pa.Array]:
    record = _record(fields)
    found = read_at(rows.data, f"V{record.itemsize}", at).view(record)
    columns = []
    for i, field in enumerate(fields):
        words = payload_words(field.type) or ()
        valid = _valid(found[f"m{i}"])
        columns.append(from_ordered([found[f"w{i}.{j}"] for j in range(len(words))], valid, field.type))
    return columns


def _encode_variable(column: pa.Array) -> list[Any]:
    """Return the pieces of a column: marker, payload and terminator; one, if it has NULLs."""
    payload: Any = column.cast(pa.large_binary())
    if _holds_zero(payload):
        payload = pc.replace_substring(payload, _ZERO, _ESCAPED)
    marked = [_constant(_VALUE), payload, _constant(_END)]
    return [_join(marked).fill_null(_constant(_NULL))] if payload.null_count else marked


def _find_payloads(rows: BinaryRows, at: I64, valid: Bools | None, *, is_last: bool) -> tuple[I64, I64, I64]:
    """Return start and end of the escaped payloads whose markers are at `at`, and the positions after the terminators.

    The last column ends with the key, so only earlier columns are searched for their terminator.
    """
    start = at + 1
    end = np.maximum(rows.ends - 2, start) if is_last else _find_terminators(rows.data, start)
    if valid is None:
        return start, end, end + 2
    return start, np.where(valid, end, start), np.where(valid, end + 2, start)


def _find_terminators(data: U8, starts: I64) -> I64:
    """Return the first position p >= start with 0x00 0x00.

    Escaping puts 0xFF after each 0x00 of a payload, so the payload ends at p.
    """
    zero = data == 0
    pairs = np.append(np.flatnonzero(zero[:-1] & zero[1:]), len(data))
    found: I64 = pairs[np.searchsorted(pairs, starts)]
    return found


def _restore(payload: Any, schema: KeySchema, column: int) -> pa.Array:
    plain = pc.replace_substring(payload, _ESCAPED, _ZERO) if _holds_zero(payload) else payload
    try:
        restored: pa.Array = plain.cast(schema.fields[column].type)
    except pa.ArrowInvalid as error:  # a string that is not UTF-8
        raise CorruptStateError(_not_a_key(schema)) from error
    return restored


def _valid(markers: AnyNumpy) -> Bools | None:
    """Return a mask of the rows that hold a value; None if all do."""
    if len(markers) and int(markers.max()) > 1:
        msg = (
            "a key column starts with a byte that is neither NULL nor value, so these bytes are no encoded keys. "
            f"Restore from an older checkpoint. marker={int(markers.max())}"
        )
        raise CorruptStateError(msg)
    valid: Bools = markers == 1
    return None if valid.all() else valid


def _check_inside(rows: BinaryRows, at: I64, schema: KeySchema) -> None:
    if (at > rows.ends).any():
        raise CorruptStateError(_not_a_key(schema))


def _not_a_key(schema: KeySchema) -> str:
    return (
        "stored key bytes do not fit the key columns, so state and job disagree or the bytes are damaged. "
        "Restore from an older checkpoint, or start the job with the key columns that wrote it. "
        f"columns={[f'{f.name}: {f.type}' for f in schema.fields]}"
    )


def _unsupported(field: pa.Field) -> str:
    return (
        "a column of this type cannot be part of a key, because it has no defined byte order here. "
        "Cast it in a `sql` step to an integer, boolean, string, binary, date, timestamp (microseconds), decimal "
        f"(up to 38 digits) or floating-point type. column={field.name}, type={field.type}"
    )


def _holds_zero(values: pa.Array) -> bool:
    rows = binary_rows(values)
    return len(rows) > 0 and bool((rows.data[int(rows.starts[0]) :] == 0).any())


def _as_large_binary(piece: pa.Array) -> pa.Array:
    if pa.types.is_large_binary(piece.type):
        return piece
    bounds = np.arange(len(piece) + 1, dtype=np.int64) * piece.type.byte_width
    return pa.Array.from_buffers(pa.large_binary(), len(piece), [None, pa.py_buffer(bounds), piece.buffers()[1]])


def _join(pieces: Sequence[Any]) -> pa.Array:
    joined: pa.Array = pc.binary_join_element_wise(*pieces, _constant(b"")) if len(pieces) > 1 else pieces[0]
    return joined


def _constant(value: bytes) -> pa.Scalar:
    return pa.scalar(value, pa.large_binary())
