"""Descriptions of state types as JSON. The manifest keeps them, to reject a program with incompatible declarations.

A description is a name (`"int"`, `"str"`, ...), or an object with one key:

    {"list": item} {"set": item} {"varying": item}   varying: tuple[item, ...]
    {"dict": [key, value]} {"tuple": [item, ...]} {"union": [alternative, ...]} {"enum": [value, ...]}
    {"record": {field: {"type": description, "required": bool}}}
    {"again": n}   the record n levels of records above, for recursive types

Invariants (tests/operators/process/test_descriptions.py): if incompatibilities(a, b) is empty, then
  I1  b can read everything that a stored
  I2  b finds every entry of a map that a stored: its key has the same bytes
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, get_origin

import msgspec
from msgspec import inspect

from mixedmode.errors import InvalidJobError

Description = str | dict[str, Any]

_PLAIN: dict[type, str] = {
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.BoolType: "bool",
    inspect.NoneType: "None",
    inspect.DateTimeType: "datetime",
    inspect.DateType: "date",
    inspect.TimeType: "time",
    inspect.TimeDeltaType: "timedelta",
    inspect.DecimalType: "Decimal",
    inspect.UUIDType: "UUID",
}
_LISTS: dict[type, str] = {
    inspect.ListType: "list",
    inspect.SetType: "set",
    inspect.FrozenSetType: "set",
    inspect.VarTupleType: "varying",
}
_NUMBERS = ("bool", "int", "float", "Decimal")
_RECORDS = (inspect.DataclassType, inspect.StructType, inspect.TypedDictType)
_MUTABLE = (inspect.ListType, inspect.SetType, inspect.DictType, inspect.TypedDictType)


def describe(value_type: Any) -> Description:
    """Return the description of a type. Raise InvalidJobError if its values cannot be stored and read again."""
    try:
        node = inspect.type_info(value_type)
        msgspec.msgpack.Decoder(value_type)  # rejects ambiguous unions
    except TypeError as error:
        msg = f"a state cannot hold this type: {error}. {_ADVICE} type={written(value_type)}"
        raise InvalidJobError(msg) from error
    return _describe(node, ())


def written(value_type: Any) -> str:
    """Return a type as a program writes it: `int`, `list[int]`, `dict[str, Any]`."""
    is_class = isinstance(value_type, type) and get_origin(value_type) is None
    return value_type.__qualname__ if is_class else str(value_type).replace("typing.", "")


def is_immutable(value_type: Any) -> bool:
    """Return whether no value of this type can change in place."""
    return _is_immutable(inspect.type_info(value_type), ())


def mixes_numbers(description: Any) -> bool:
    """Return whether a value may be a number of several types, as of `int | float`.  description: of a type, or a part.

    1, 1.0 and True are equal in Python, and their bytes differ.
    """
    if isinstance(description, list):
        return any(map(mixes_numbers, description))
    if not isinstance(description, dict):
        return False
    numbers = [one for one in description.get("union", ()) if one in _NUMBERS]
    return len(numbers) > 1 or any(map(mixes_numbers, description.values()))


def incompatibilities(stored: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the reasons why state written under the schema `stored` cannot be read under `schema`; [] if it can.

    Both schemas come from ProcessOperator.state_schema. Compatible changes are: a new state, another ttl, a new field
    with a default, an additional alternative in a union, and a change from int to float. The keys of a map may only
    gain alternatives: an entry is found by the bytes of its key.
    """
    before, now = stored["states"], schema["states"]
    found = []
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            found.append(f"state `{name}` is gone, and with it what it holds; declare it again, even if it is not used")
        elif new["kind"] != old["kind"]:
            found.append(f"state `{name}` was a {old['kind']} state and is a {new['kind']} state")
        else:
            for part in ("key", "type"):
                if part in old:
                    label = f"state `{name}`" if part == "type" else f"the keys of state `{name}`"
                    found += _differences(old[part], new[part], label, is_key=part == "key")
    return found


_ADVICE = (
    "Declare int, float, str, bytes, bool, datetime, date, time, timedelta, Decimal, UUID, an enum, `| None`, "
    "list[...], dict[..., ...], tuple[...], set[...], a dataclass or a msgspec.Struct of these."
)


def _describe(node: inspect.Type, above: tuple[type, ...]) -> Description:
    kind = type(node)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _LISTS:
        return {_LISTS[kind]: _describe(node.item_type, above)}  # type: ignore[attr-defined]
    if isinstance(node, inspect.DictType):
        return {"dict": [_describe(node.key_type, above), _describe(node.value_type, above)]}
    if isinstance(node, inspect.TupleType):
        return {"tuple": [_describe(item, above) for item in node.item_types]}
    if isinstance(node, inspect.NamedTupleType):
        return {"tuple": [_describe(field.type, above) for field in node.fields]}
    if isinstance(node, inspect.UnionType):
        return {"union": [_describe(each, above) for each in node.types]}
    if isinstance(node, inspect.EnumType):
        return {"enum": [member.value for member in node.cls]}
    if isinstance(node, inspect.LiteralType):
        return {"enum": list(node.values)}
    if isinstance(node, _RECORDS):
        return _describe_record(node, above)
    msg = f"a state cannot hold this type, because its values could not be read again. {_ADVICE} type={_words(node)}"
    raise InvalidJobError(msg)


def _words(node: inspect.Type) -> str:
    """Return a type that has no description in words: `bytearray`, the name of a class, or that it may be any."""
    if isinstance(node, inspect.AnyType):
        return "anything, as of Any, or of a list, dict, tuple or set that does not say what is in it"
    if isinstance(node, inspect.CustomType):
        return written(node.cls)
    return type(node).__name__.removesuffix("Type").lower()


def _describe_record(node: Any, above: tuple[type, ...]) -> Description:
    if node.cls in above:
        return {"again": len(above) - above.index(node.cls)}
    if getattr(node, "array_like", False) or getattr(node, "forbid_unknown_fields", False):
        msg = (
            "a state cannot hold this struct, because with array_like or forbid_unknown_fields it could never gain a "
            f"field. Remove the option. type={node.cls.__name__}"
        )
        raise InvalidJobError(msg)
    inner = (*above, node.cls)
    fields = {f.encode_name: {"type": _describe(f.type, inner), "required": f.required} for f in node.fields}
    return {"record": fields} if getattr(node, "tag", None) is None else {"record": fields, "tag": node.tag}


def _is_immutable(node: inspect.Type, above: tuple[type, ...]) -> bool:
    if isinstance(node, _MUTABLE):
        return False
    if isinstance(node, inspect.DataclassType | inspect.StructType):
        return node.cls in above or (_is_frozen(node.cls) and _are_immutable(node.fields, (*above, node.cls)))
    if isinstance(node, inspect.NamedTupleType):
        return _are_immutable(node.fields, above)
    if isinstance(node, inspect.VarTupleType | inspect.FrozenSetType):
        return _is_immutable(node.item_type, above)
    if isinstance(node, inspect.TupleType):
        return all(_is_immutable(item, above) for item in node.item_types)
    if isinstance(node, inspect.UnionType):
        return all(_is_immutable(each, above) for each in node.types)
    return True


def _are_immutable(fields: tuple[inspect.Field, ...], above: tuple[type, ...]) -> bool:
    return all(_is_immutable(field.type, above) for field in fields)


def _is_frozen(record: Any) -> bool:
    options = record.__struct_config__ if issubclass(record, msgspec.Struct) else record.__dataclass_params__
    return bool(options.frozen)


def _differences(old: Any, new: Any, place: str, *, is_key: bool) -> list[str]:
    """Return the reasons why a value described as `old` may not be readable as `new`.

    is_key: it is the key of a map, or a part of one, so it must also have the same bytes.
    """
    if old == new or (old == "int" and new == "float" and not is_key):
        return []
    differences = partial(_differences, place=place, is_key=is_key)
    alternatives_old, alternatives_new = _alternatives(old), _alternatives(new)
    if len(alternatives_old) > 1 or len(alternatives_new) > 1:
        unread = [a for a in alternatives_old if all(differences(a, b) for b in alternatives_new)]
        return [_was(place, old, new)] if unread else []
    if isinstance(old, str) or isinstance(new, str) or old.keys() != new.keys():
        return [_was(place, old, new)]
    if "record" in old:
        return _record_differences(old, new, place, is_key=is_key)
    if "enum" in old:
        missing = [value for value in old["enum"] if value not in new["enum"]]
        return [f"{place} no longer has the values {missing}"] if missing else []
    (kind,) = old
    if kind == "again" or (kind == "tuple" and len(old[kind]) != len(new[kind])):
        return [_was(place, old, new)]
    parts_old, parts_new = (d[kind] if isinstance(d[kind], list) else [d[kind]] for d in (old, new))
    return [found for a, b in zip(parts_old, parts_new, strict=True) for found in differences(a, b)]


def _record_differences(old: dict[str, Any], new: dict[str, Any], place: str, *, is_key: bool) -> list[str]:
    before, now = old["record"], new["record"]
    if old.get("tag") != new.get("tag"):
        return [f"{place} had the tag {old.get('tag')} and has the tag {new.get('tag')}"]
    found = []
    for name, field in before.items():
        label = f"field `{name}` of {place}"
        if name not in now:
            found.append(f"{label} is gone, and with it what it holds; keep it, even if it is not used")
            continue
        found += _differences(field["type"], now[name]["type"], label, is_key=is_key)
        if now[name]["required"] and not field["required"]:
            found.append(f"{label} had a default and has none, but older values may lack the field; give it a default")
    for name, field in now.items():
        if name in before:
            continue
        if is_key:
            found.append(f"field `{name}` of {place} is new, and entries are found by their whole key; take it out")
        elif field["required"]:
            found.append(f"field `{name}` of {place} is new and has no default; give it one")
    return found


def _alternatives(description: Any) -> list[Any]:
    return description["union"] if isinstance(description, dict) and "union" in description else [description]


def _was(place: str, old: Any, new: Any) -> str:
    return f"{place} held {shown(old)} and holds {shown(new)}"


def shown(description: Any) -> str:
    """Return a description in the syntax of a type: `list[int]`, `str | None`."""
    if isinstance(description, str):
        return description
    kind = next(iter(description))
    inner = description[kind]
    if kind == "union":
        return " | ".join(shown(each) for each in inner)
    if kind == "record":
        return "a record of " + ", ".join(inner)
    if kind in ("dict", "tuple"):
        return f"{kind}[{', '.join(shown(each) for each in inner)}]"
    if kind == "varying":
        return f"tuple[{shown(inner)}, ...]"
    if kind in ("list", "set"):
        return f"{kind}[{shown(inner)}]"
    return f"one of {inner}" if kind == "enum" else "itself"
