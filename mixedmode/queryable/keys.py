"""The wanted keys of a read: values that a person or a program names, as encoded keys. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mixedmode.config.outside_texts import parse_json, shown_value
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.keys import KeySchema, encode_keys, key_groups
from mixedmode.queryable.spans import EVERYTHING, Question

__all__ = ["key_of_text", "places_of_keys", "question_of"]


def question_of(
    keys: Sequence[Any] | None, prefix: Any, fields: Sequence[pa.Field], *, max_parallelism: int
) -> Question:
    """Return the question for `keys` or for a `prefix`; both None: everything.

    A key is the value of the only key column, or a sequence of the values of all key columns, or a mapping by name. A
    prefix has the values of the first key columns. Text is parsed if the column is no text. fields: the key columns.
    Raise InvalidJobError for values that do not fit the key columns.
    """
    if keys is not None and prefix is not None:
        msg = "name either keys or a prefix of keys: a read answers one question"
        raise InvalidJobError(msg)
    if keys is None and prefix is None:
        return EVERYTHING
    if not fields:
        msg = "the step has no key, so its state cannot be asked by key. Leave keys and prefix out."
        raise InvalidJobError(msg)
    if isinstance(keys, str | bytes | Mapping):  # a loop over it would ask for its characters, or names of columns
        msg = f"keys is a list of keys. Put a single one into a list. keys={shown_value(keys)}"
        raise InvalidJobError(msg)
    if keys is not None:
        encoded = _encoded([_values(key, fields, len(fields)) for key in keys], fields)
        groups = key_groups(encoded, max_parallelism=max_parallelism).tolist()
        return Question(keys=tuple(zip(groups, encoded.to_pylist(), strict=True)))
    values = _values(prefix, fields, None)
    return Question(prefix=_encoded([values], fields[: len(values)])[0].as_py())


def key_of_text(text: str, fields: Sequence[pa.Field], *, is_prefix: bool) -> Any:
    """Return the key in a text: the value of the only key column, or the values of a JSON array.

    Raise InvalidJobError for a key of several columns that is no such array.
    """
    if text.startswith("["):
        try:
            values = parse_json(text)
        except ValueError:
            values = None
        if isinstance(values, list) and (is_prefix or len(values) == len(fields)):
            return values
    if len(fields) > 1 and not is_prefix:
        columns = ", ".join(field.name for field in fields)
        msg = (
            f"the key has the columns {columns}. Give their values as a JSON array, such as '[\"DE\", 3]'. "
            f"key={shown_value(text)}"
        )
        raise InvalidJobError(msg)
    return text


def places_of_keys(
    table: pa.Table, fields: Sequence[pa.Field], keys: Sequence[tuple[int, bytes]]
) -> list[Sequence[int]]:
    """Return the positions of the rows of each key, ascending.  fields: the key columns; keys: as in Question."""
    columns = [table.column(field.name).combine_chunks() for field in fields]
    places: dict[bytes, list[int]] = {}
    for place, key in enumerate(encode_keys(columns, KeySchema(tuple(fields))).to_pylist()):
        places.setdefault(key, []).append(place)
    return [places.get(key, ()) for _, key in keys]


def _values(key: Any, fields: Sequence[pa.Field], count: int | None) -> Sequence[Any]:
    """Return the values of a key in the order of the columns.  count: how many; None: of a prefix, any number."""
    if isinstance(key, Mapping):
        names = [field.name for field in fields]
        for name in key:
            if name not in names:
                msg = f"the key has no column {name}.{did_you_mean(str(name), names)} Key columns: {', '.join(names)}."
                raise InvalidJobError(msg)
        missing = [name for name in names if name not in key]
        if missing and (count is not None or missing != names[len(key) :]):
            msg = f"a key column is missing. Name a value of each. missing={', '.join(missing)}"
            raise InvalidJobError(msg)
        return [key[name] for name in names if name in key]
    values: Sequence[Any] = key if isinstance(key, list | tuple) else (key,)
    if not (1 <= len(values) <= len(fields) and count in (None, len(values))):
        columns = ", ".join(f"{field.name} {field.type}" for field in fields)
        msg = (
            f"the number of values does not fit the key. Name a value of each column: {columns}. "
            f"values={shown_value(list(values))}"
        )
        raise InvalidJobError(msg)
    return values


def _encoded(rows: Sequence[Sequence[Any]], fields: Sequence[pa.Field]) -> pa.Array:
    columns = [_column([row[at] for row in rows], field) for at, field in enumerate(fields)]
    return encode_keys(columns, KeySchema(tuple(fields)))


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if not values:
        return pa.array([], field.type)
    try:
        return _cast(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # values of several types, or a wrong one
        return pa.concat_arrays([_one(value, field) for value in values])


def _one(value: Any, field: pa.Field) -> pa.Array:
    try:
        return _cast([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        msg = f"a value does not fit its key column. column={field.name}, type={field.type}, value={shown_value(value)}"
        raise InvalidJobError(msg) from error


def _cast(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column; texts are parsed if the column is none.  Raises Arrow's errors and Python's."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text or not isinstance(values[0], str):
        return pa.array(values, kind)
    texts = pa.array(values, pa.string())
    if not (pa.types.is_timestamp(kind) and kind.tz is not None):
        return texts.cast(kind)
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:  # without an offset: taken as UTC
        return pc.assume_timezone(texts.cast(pa.timestamp("us")), "UTC").cast(kind)
