"""Conversion of pydantic's errors to messages that say what to do next.

A message names its key as `name(path)` spells it: the dotted path in a job file, the argument in Python. It shows a
value as `written(path, value)` does, so that `no` in a file is not shown as False. Kinds of values have the words of a
job file, unless `terms` has other words for them; it may also have a word for the role of a source or sink.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from types import MappingProxyType
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mixedmode.config.connectors import ROLES, Kinds, OfAnyKind, keys_of, kinds_with, role_of
from mixedmode.config.document import Path, path_text
from mixedmode.config.fields import Section, key_of
from mixedmode.config.other_names import OTHER_NAMES, plain_key
from mixedmode.config.registry import formats_of
from mixedmode.config.sinks import SideOutputSpec, SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.config.spec import JobSpec
from mixedmode.config.spelling import did_you_mean, nearest
from mixedmode.config.steps import STEP_KINDS

Name = Callable[[Path], str]
Written = Callable[[Path, Any], str]
Terms = Mapping[str, str]

_SECTION = "a section of keys"
#: {pydantic's error type: the expected kind of value}
_WANTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "one_or_more_type": "text or a list",
    "dict_type": _SECTION,
    "mapping_type": _SECTION,
    "model_type": _SECTION,
    "dataclass_type": "text, such as count(*)",
}
#: {pydantic's error type: (its words, the name of the limit in the error's context)}
_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}
#: {type of a collection: how a path continues below it}
_MANY: dict[Any, str] = {Mapping: ".<name>", tuple: "[]"}
#: keys at these places are suggested only if no place nearer to the top has such a key
_FURTHER_IN = re.compile(r"steps\[\]\..*\.|sources\.<name>\.(?:history|live)\.|dimensions\.")
_NO_KIND = {"union_tag_not_found", "union_tag_invalid"}
_KINDS = (
    "sql, or map, or join, or co-process, or co-group, or key-by and one of aggregate, process, "
    "async-map, top, deduplicate, over, apply-changes"
)


def findings(
    error: ValidationError,
    model: type[Section],
    *,
    name: Name = path_text,
    written: Written = lambda _path, value: str(value),
    terms: Terms = MappingProxyType({}),
) -> Iterator[tuple[Path, str]]:
    """Yield (path, message) of each error of a `model`, without errors that only follow from another error."""
    details = error.errors(include_url=False)
    meant = {
        (*loc[:-1], nearest(str(loc[-1]), _keys(_section_at(model, loc[:-1]))))
        for loc in (detail["loc"] for detail in details if detail["type"] == "extra_forbidden")
    }
    for detail in details:
        is_misspelled = detail["type"] == "missing" and detail["loc"] in meant
        has_only_faulty_entries = detail["type"] == "too_short" and detail["input"]
        if is_misspelled or has_only_faulty_entries:
            continue
        if detail["type"] == "refused":
            for below, text in detail["ctx"]["findings"]:
                path = (*_path(detail["loc"], model), *below)
                yield path, name(path) + text
        else:
            path = _path(detail["loc"], model)
            role = _role_at(model, detail["loc"])
            if role is not None and detail["type"] in _NO_KIND and isinstance(detail["input"], Mapping | role.base):
                key, text = _no_format(detail, role.kinds)
                yield (*path, key), name((*path, key)) + text
                continue
            yield path, name(path) + _predicate(detail, model, written(path, detail["input"]), terms)


def _predicate(detail: ErrorDetails, model: type[Section], written: str, terms: Terms) -> str:
    kind, value, loc = detail["type"], detail["input"], detail["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(loc, model)
    if kind == "missing":
        section = _section_at(model, loc[:-1])
        description = next(field.description for key, field in _fields(section) if key == loc[-1])
        return f" is missing: {description}. Add it."
    if kind in {"enum", "literal_error"} and isinstance(value, str | bool | int | float):
        known = re.findall("'([^']*)'", detail["ctx"]["expected"])
        return f" cannot be {written or 'empty'}.{did_you_mean(written, known)} Known values: {', '.join(known)}."
    if kind in {"enum", "literal_error"}:
        return _wrong_type("text", value, written, terms)
    if kind in _LIMITS:
        words, limit = _LIMITS[kind]
        return f" must be {words} {detail['ctx'][limit]}. found={written}"
    if kind == "too_short":
        return " must hold at least one entry. Add one."
    if kind == "union_tag_not_found" and isinstance(value, Mapping):
        return f" is no kind of step. Give it {_KINDS}."
    role = _role_at(model, loc)
    wanted = _WANTED.get(kind, _SECTION if role is None else terms.get(role.role, _SECTION))
    return _wrong_type(wanted, value, written, terms, known=_keys_below(model, loc))


def _no_format(detail: ErrorDetails, kinds: Kinds) -> tuple[str, str]:
    """Return (key, message) of a section of none of these kinds: the key that says its kind, or a misspelling."""
    known = sorted(name for kind in kinds.values() for name in formats_of(kind))
    if detail["type"] == "union_tag_not_found":
        others = [_required(section) for name, section in kinds.items() if keys_of(name)]
        for key in detail["input"] if isinstance(detail["input"], Mapping) else ():
            hint = did_you_mean(str(key), ["format", *chain(*others)])
            if hint:
                return str(key), f" is not a known key.{hint}"
        or_else = "".join(f" Or give it {', '.join(keys[:-1])} and {keys[-1]}, each a section." for keys in others)
        return "format", f" is missing: what it is. Add it. Known values: {', '.join(known)}.{or_else}"
    found = detail["ctx"]["tag"]
    why = ""
    if kinds == kinds_with("dimension") and any(found in formats_of(kind) for kind in kinds_with("source").values()):
        why = " A dimension is read at a version of its table, and this format has none."
    if kinds == kinds_with("source") and any(found in formats_of(one) for one in kinds_with("dimension").values()):
        why = " A table of it can only be a dimension, which sql joins (docs/dimensions.md)."
    return (
        "format",
        f" cannot be {found or 'empty'}.{why}{did_you_mean(found, known)} Known values: {', '.join(known)}.",
    )


def _required(section: type[Section]) -> list[str]:
    return [key for key, field in _fields(section) if field.is_required()]


def _role_at(model: type[Section], loc: Path) -> OfAnyKind | None:
    """Return the role of the source or sink that is allowed at `loc`; None if `loc` is not for a source or sink."""
    *around, last = loc
    for end in (around, around[:-1]):
        key = last if end is around else around[-1] if around else None
        section = _section_at(model, tuple(end))
        annotation = next((field.annotation for known, field in _fields(section) if known == key), None)
        role = _role_in(annotation)
        if role is not None:
            return role
    return None


def _unknown_key(loc: Path, model: type[Section]) -> str:
    section, key, path = _section_at(model, loc[:-1]), str(loc[-1]), _path(loc, model)
    known = _keys(section)
    other_number = did_you_mean(key, {f"{key}s", key.removesuffix("s")}.intersection(known))
    if (
        not other_number
        and section in STEP_KINDS.values()
        and any(key in _keys(other) for other in STEP_KINDS.values())
    ):
        if key == "from":
            return " is for other steps: this one names its two inputs itself, as `left` and `right`. Remove it."
        return f" belongs to another kind of step: a step has {_KINDS}. Make it a step of its own."
    family = next((kinds for kinds in map(kinds_with, ROLES) if section in kinds.values()), {})
    others = sorted(name for kind in family.values() if key in _keys(kind) for name in formats_of(kind))
    if others:
        return f" is for another format: {', '.join(others)}. Remove it, or change the format."
    hint = other_number or _elsewhere(key, path, exactly=True) or did_you_mean(key, known)
    hint = hint or _of_another_program(key, known) or _elsewhere(key, path)
    return f" is not a known key.{hint} Known keys here: {', '.join(known)}."


def _of_another_program(key: str, known: Sequence[str]) -> str:
    """Return a hint for a name that Flink, Spark or SQL has for a setting of this section, or of the whole job."""
    meant = OTHER_NAMES.get(plain_key(key), ())
    here = [name for name in meant if name in known or "." in name]
    return f" Did you mean {here[0]}?" if here else ""


def _elsewhere(key: str, path: Path, *, exactly: bool = False) -> str:
    """Return a hint where in a job a key like the one at `path` belongs; with `exactly`, exactly this key."""
    places: dict[str, list[str]] = {}
    for place, known in keys_by_place(JobSpec).items():
        places.setdefault(known, []).append(place)
    match = key if exactly else nearest(key, places)
    if match not in places:
        return ""
    outside = [place for place in places[match] if not _FURTHER_IN.match(place)] or places[match]
    shared = {place: _shared_keys(place, path) for place in outside}
    closest = [place for place, count in shared.items() if count == max(shared.values())]
    return f" Did you mean {' or '.join(closest)}?"


def _shared_keys(place: str, path: Path) -> int:
    """Return how many keys the beginnings of a place, such as `steps[].window.tumbling`, and a path share."""
    keys = place.replace("[]", "").split(".")
    pairs = zip(keys, (part for part in path if isinstance(part, str)), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] in {pair[1], "<name>"}, pairs))


def _wrong_type(wanted: str, value: Any, written: str, terms: Terms, *, known: Sequence[str] = ()) -> str:
    given = _kind(value)
    is_single = isinstance(value, str | bool | int | float)
    advice = " Put it in quotes." if wanted in {"text", "text or a list"} and is_single else ""
    if wanted == _SECTION and known:
        advice = f" Known keys here: {', '.join(known)}."
    found = f" found={written}" if is_single else ""
    return f" must be {terms.get(wanted, wanted)}, not {terms.get(given, given)}.{advice}{found}"


def _kind(value: Any) -> str:
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (type(None), "nothing"),
        (bool, "true or false"),  # before int, since bool is a subclass of it
        (int, "a whole number"),
        (float, "a number with a fraction"),
        (str, "text"),
        (Mapping, _SECTION),
        (SideOutputSpec, "a side output"),
        (SinkSpec, "a sink"),
        (SourceSpec, "a source"),
        ((list, tuple), "a list"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def _path(loc: Path, model: type[Section]) -> Path:
    """Return pydantic's location without its additions.

    The additions are kinds of steps and connectors, and `[key]` for a key of a map.
    """
    return _walked(model, tuple(part for part in loc if part != "[key]"))[1]


def _section_at(model: type[Section], loc: Path) -> type[Section]:
    """Return the section at pydantic's location `loc`, which names the kind of a step or connector before its keys."""
    return _walked(model, loc)[0]


def _keys_below(model: type[Section], loc: Path) -> list[str]:
    """Return the keys of the section that belongs at pydantic's location `loc`; none if several kinds may be there."""
    around = _section_at(model, loc[:-1])
    annotation = next((field.annotation for key, field in _fields(around) if key == loc[-1]), None)
    inner = list(_sections_in(annotation))
    return _keys(inner[0]) if len(inner) == 1 and get_origin(annotation) not in _MANY else []


def _walked(model: type[Section], loc: Path) -> tuple[type[Section], Path]:
    """Return (section, path) at pydantic's location.

    section is the section there, or the nearest one around it. path is the location as a path of the document.
    """
    parts, path = list(loc), list[str | int]()
    while parts:
        key = parts.pop(0)
        path.append(key)
        annotation = next((field.annotation for known, field in _fields(model) if known == key), None)
        inner = list(_sections_in(annotation))
        if not inner:
            return model, (*path, *parts)
        if get_origin(annotation) in _MANY and parts:
            path.append(parts.pop(0))  # a name in a map, or a position in a list
        role = _role_in(annotation)
        kinds = STEP_KINDS if set(inner) == set(STEP_KINDS.values()) else None if role is None else role.kinds
        if kinds is None:
            model = inner[0]
        elif parts:
            model = kinds[str(parts.pop(0))]
    return model, tuple(path)


def _role_in(annotation: Any) -> OfAnyKind | None:
    """Return the role of the source or sink that a field of this type holds; None for a field of another type."""
    role = role_of(annotation)
    if role is not None:
        return role
    return next((found for inner in get_args(annotation) if (found := _role_in(inner)) is not None), None)


def keys_by_place(model: type[Section], prefix: str = "") -> dict[str, str]:
    """Return {place: its last key} of all settings below a section, such as {"steps[].top.n": "n"}."""
    places: dict[str, str] = {}
    for key, field in _fields(model):
        places[prefix + key] = key
        many = _MANY.get(get_origin(field.annotation), "")
        for section in _sections_in(field.annotation):
            places |= keys_by_place(section, f"{prefix}{key}{many}.")
    return places


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    role = role_of(annotation)
    if role is not None:
        yield from role.kinds.values()
    for argument in get_args(annotation):
        yield from _sections_in(argument)


def _keys(model: type[Section]) -> list[str]:
    return [key for key, _ in _fields(model)]


def _fields(model: type[Section]) -> list[tuple[str, Any]]:
    return [(key_of(name), field) for name, field in model.fields_in_order().items()]
