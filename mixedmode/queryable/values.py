"""Values of process functions as Arrow: from the description of a type in the manifest, without the function's class.

    int int64, float double, str string, bytes binary, bool bool, date date32, time time64[us], timedelta duration[us],
    datetime timestamp[us, UTC] (one without a time zone is taken as UTC), Decimal and UUID string
    list, set, tuple[x, ...] list; dict map; tuple[x, y] and records struct; an enum the type of its values
    x | None the type of x; any other union, and a type within itself: JSON text

An int beyond 64 signed bits makes its column decimal128(20, 0).

Source: operators/process/descriptions.py (descriptions) and operators/process/codec.py (MessagePack).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from mixedmode.errors import CorruptStateError, InvalidJobError

__all__ = ["arrow_type", "column_of", "decoded"]

_TYPES: Mapping[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "None": pa.null(),
    "datetime": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timedelta": pa.duration("us"),
    "Decimal": pa.string(),
    "UUID": pa.string(),
}
_PARSED: Mapping[str, type] = {"date": date, "time": time, "timedelta": timedelta}
_WIDE = pa.decimal128(20, 0)  # holds every integer of MessagePack


def arrow_type(description: Any) -> pa.DataType:
    """Return the Arrow type of values with this description."""
    if isinstance(description, str):
        return _TYPES[description]
    kind, inner = next(iter(description.items()))
    match kind:
        case "list" | "set" | "varying":
            return pa.list_(arrow_type(inner))
        case "dict":
            return pa.map_(arrow_type(inner[0]), arrow_type(inner[1]))
        case "tuple":
            return pa.struct([(f"_{number}", arrow_type(item)) for number, item in enumerate(inner)])
        case "record":
            return pa.struct([(name, arrow_type(field["type"])) for name, field in inner.items()])
        case "union":
            alternative = _only_alternative(inner)
            return pa.string() if alternative is None else arrow_type(alternative)
        case "enum":
            kinds = {type(value) for value in inner}
            return (
                {int: pa.int64(), float: pa.float64()}.get(next(iter(kinds)), pa.string())
                if len(kinds) == 1
                else pa.string()
            )
    return pa.string()


def column_of(values: Sequence[Any], description: Any) -> pa.Array:
    """Return decoded values as a column; None is NULL."""
    convert, data_type = _converter(description), arrow_type(description)
    converted = [None if value is None else convert(value) for value in values]
    try:
        return pa.array(converted, data_type)
    except (OverflowError, pa.ArrowInvalid) as error:
        if description in ("int", {"union": ["int", "None"]}):
            return pa.array(converted, _WIDE)
        msg = f"a value is beyond the range of its Arrow type, such as a large int. type={data_type}, cause={error}"
        raise InvalidJobError(msg) from error


def decoded(packed: bytes, where: str) -> Any:
    """Return the plain Python value of MessagePack. Raise an error that says why it cannot be shown."""
    try:
        return msgspec.msgpack.decode(packed)
    except msgspec.MsgspecError as error:
        if "hashable" in str(error):
            msg = (
                "the state cannot be read outside of the job: it has a dictionary whose keys are records. Read another "
                f"state of the step by its name. state={where}"
            )
            raise InvalidJobError(msg) from error
        msg = f"a stored value is damaged. Restore from an older checkpoint. state={where}, reason={error}"
        raise CorruptStateError(msg) from error


def _only_alternative(alternatives: Sequence[Any]) -> Any:
    """Return x of `x | None`; None for other unions."""
    others = [each for each in alternatives if each != "None"]
    return others[0] if len(others) == 1 else None


def _converter(description: Any) -> Callable[[Any], Any]:
    """Return a function from a decoded value that is not None to a value for pa.array."""
    if isinstance(description, str):
        return _plain(description)
    kind, inner = next(iter(description.items()))
    match kind:
        case "list" | "set" | "varying":
            item = _optional(inner)
            return lambda value: [item(each) for each in value]
        case "dict":
            key, item = _optional(inner[0]), _optional(inner[1])
            return lambda value: [(key(k), item(v)) for k, v in value.items()]
        case "tuple":
            parts = [_optional(each) for each in inner]
            return lambda value: {f"_{i}": part(each) for i, (part, each) in enumerate(zip(parts, value, strict=True))}
        case "record":
            fields = {name: _optional(field["type"]) for name, field in inner.items()}
            return lambda value: {name: convert(value.get(name)) for name, convert in fields.items()}
        case "union":
            alternative = _only_alternative(inner)
            return _json if alternative is None else _converter(alternative)
        case "enum":
            return _json if arrow_type(description) == pa.string() and not _are_strings(inner) else lambda value: value
    return _json


def _optional(description: Any) -> Callable[[Any], Any]:
    convert = _converter(description)
    return lambda value: None if value is None else convert(value)


def _plain(name: str) -> Callable[[Any], Any]:
    if name == "datetime":
        return _instant
    if name in _PARSED:
        parsed = _PARSED[name]
        return lambda value: msgspec.convert(value, parsed)
    return lambda value: value


def _instant(value: Any) -> datetime:
    moment: datetime = msgspec.convert(value, datetime)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _are_strings(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
