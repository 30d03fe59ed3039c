"""The kinds of value that a setting can have: how each is parsed, validated, and written back.

A validator raises `refusal`, whose texts follow the name of the key. The reporter of the error spells the key: as a
path in a job file, or as an argument in Python.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from mixedmode.config.calls import AggregateCall
from mixedmode.config.document import Path
from mixedmode.config.instants import is_time_zone, parse_instant, time_zones
from mixedmode.config.order import OrderBy
from mixedmode.config.over_calls import OverCall
from mixedmode.config.spelling import did_you_mean
from mixedmode.config.values import format_bytes, parse_bytes
from mixedmode.durations import format_duration_ms, parse_duration_ms
from mixedmode.errors import InvalidJobError
from mixedmode.secrets import unreadable_reference

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NAME_MAX = 200  # a name on a disk has at most 255 bytes, and most names of files have further parts
_CLASS = re.compile(r"(?:[^\W\d]\w*\.)*[^\W\d]\w*:(?:[^\W\d]\w*\.)*[^\W\d]\w*")
_UNITS = ("_ms", "_bytes", "_ddl")
#: longer than any useful window or lateness, and short enough that no event time plus it exceeds 64 bits
SPAN_MS_MAX = 36_500 * 86_400_000
SQL_FIELDS = {"sql", "aggregate", "having", "order_by", "computed_columns"}
#: texts that nothing resolves: paths, and names that would be taken literally without an error
_LITERAL_FIELDS = {
    *("path", "folder", "folder_", "schema_file", "dir", "cert", "savepoints"),
    *("table", "table_schema", "topic_pattern"),
}
#: what a shell would replace: a variable in braces; at the beginning, a home folder or a variable
_SHELL = re.compile(r"\$\{(?:env:)?|\A(?:~|\$[A-Za-z_]\w*)(?=/|\Z)", re.ASCII)
_ARGUMENT_DEPTH_MAX = 50  # nested lists and sections; deeper ones would exhaust Python's stack elsewhere


@cache
def key_of(field_name: str) -> str:
    """Return the YAML key of a field: kebab case without the unit, which the value carries there (`1s`, `256MB`).

    A field whose key is a Python keyword has a `_` after it (`global_`).
    """
    for unit in _UNITS:
        field_name = field_name.removesuffix(unit)
    return field_name.removesuffix("_").replace("_", "-")


class Section(BaseModel):
    """A section of the job file: immutable, and without keys other than its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=key_of)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_given(cls, data: Any) -> Any:
        """Drop keys without a value, which mean the default (all below may be commented out). An unknown key stays."""
        if not isinstance(data, Mapping):
            return data
        known = {key_of(name) for name in cls.model_fields}
        return {key: value for key, value in data.items() if value is not None or key not in known}

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        findings = [*self._findings(), *self._reference_findings()]
        if findings:
            raise refusal(*findings)
        return self

    @classmethod
    def fields_in_order(cls) -> dict[str, FieldInfo]:
        """Return the fields by name, in the order in which a person reads them."""
        return dict(cls.model_fields)

    def _findings(self) -> Iterator[tuple[Path, str]]:
        """Yield the errors of the fields taken together, when each field alone is valid: see `refusal`.

        None by default.
        """
        yield from ()

    def _reference_findings(self) -> Iterator[tuple[Path, str]]:
        """Yield the texts with a variable or `~` that nothing resolves, or that do not end it. SQL is left to Spark."""
        for name, value in self:
            found = _shell_part(value) if name in _LITERAL_FIELDS else None
            if found is not None:
                text = f" is taken literally: {found} is not replaced in it. Write its value, or give it with --set."
                yield (key_of(name),), text
            elif name not in SQL_FIELDS:
                for path, given in texts_in(value, (key_of(name),), in_sections=False):  # those look at their own
                    problem = unreadable_reference(given)
                    if problem is not None:
                        yield path, problem


class InOrder(Section):
    """A section that is written out in the order of `fields_in_order`."""

    @model_serializer(mode="wrap")
    def _in_order(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        given = serialize(self)
        names = [name for field in self.fields_in_order() for name in (field, key_of(field)) if name in given]
        return {name: given[name] for name in dict.fromkeys(names)}


class MainSetting(Section):
    """A section whose main setting may stand for the section, and does so in YAML output if no other setting is set."""

    main: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _main_alone(cls, data: Any) -> Any:
        if isinstance(data, Mapping | Section | None):
            return data
        return {key_of(cls.main): data}

    @model_serializer(mode="wrap")
    def _as_main(self, handler: SerializerFunctionWrapHandler) -> Any:
        given = handler(self)
        return given[key_of(self.main)] if list(given) == [key_of(self.main)] else given


def refusal(*findings: tuple[Path, str]) -> PydanticCustomError:
    """Return the error that a validator raises.

    findings: (path below the validated value, text to follow the key's name) each.
    """
    return PydanticCustomError("refused", "refused", {"findings": findings})


def parsed_by(parse: Callable[[Any], Any]) -> BeforeValidator:
    """Return a validator that calls a parser and passes on the parser's message."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except InvalidJobError as error:
            raise refusal(((), f": {error}")) from error

    return BeforeValidator(validate)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise refusal(((), " must not be empty."))
    return text


def _one_line(text: str) -> str:
    """Return the same text. Refuse control characters, which files, databases and brokers refuse late and obscurely."""
    for char in _not_blank(text):
        if unicodedata.category(char) in {"Cc", "Cs"}:
            # the text itself is not shown: a URL may hold a password
            found = " holds a line break" if char in "\n\r" else " holds a control character"
            text = f"{found}, which no name, path or address can hold. Remove it. character=U+{ord(char):04X}"
            raise refusal(((), text))
    return text


def _shell_part(value: Any) -> str | None:
    """Return the first part of a path that only a shell would replace, such as `~` or `$HOME`; None without one."""
    found = _SHELL.search(value) if isinstance(value, str) else None
    return None if found is None else {"${env:": "${env:...}", "${": "${...}"}.get(found[0], found[0])


def texts_in(value: Any, path: Path, *, in_sections: bool = True) -> Iterator[tuple[Path, str]]:
    """Yield (path, text) of each text in a value at `path`, and in its sections unless left out. SQL is left out."""
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Section):
        parts = ((key_of(name), one) for name, one in value if in_sections and name not in SQL_FIELDS)
    elif isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    for place, one in parts:
        yield from texts_in(one, (*path, place), in_sections=in_sections)


def _table(name: str) -> str:
    return _name(name, "SQL reads it by its name, so the name is letters, digits and _, without a dot, and")


def _identifier(name: str) -> str:
    return _name(name, "this name is letters, digits and _, and")


def _name(name: str, rule: str) -> str:
    if not _NAME.fullmatch(name):
        text = f": {rule} does not start with a digit. Choose another. found={name}"
    elif len(name) > _NAME_MAX:
        longest = f"names of files are made of it, so it has at most {_NAME_MAX} characters"
        text = f": {longest}. Choose a shorter one. found={name}"
    else:
        return name
    raise refusal(((), text))


def _output(name: str) -> str:
    if "." in name:
        raise refusal(((), ": the name of an output cannot contain a dot. Choose one without it."))
    if name.startswith("_"):
        raise refusal(((), ": names that start with _ are kept for columns such as _op and _epoch. Choose another."))
    return _one_line(name)


def one_or_more(value: Any) -> Any:
    """Return a single text as one value in a list, and a list unchanged. Refuse anything else."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        kind = "one_or_more_type"
        raise PydanticCustomError(kind, kind)
    return value


def _parsed(kind: type, parse: Callable[[str], Any], refusal_of_others: str) -> Callable[[Any], Any]:
    """Return a function that parses text, and returns a value of the kind unchanged. It refuses anything else."""

    def parsed(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError(refusal_of_others, refusal_of_others)
        return parse(value)

    return parsed


def _order(text: str) -> OrderBy:
    return OrderBy.parse(_not_blank(text))


def _flat_texts(value: Any) -> Any:
    """Return the settings as text. Python's True, 1 and 0.5 become the text that Spark reads."""
    if not isinstance(value, Mapping):
        return value
    if "" in value:
        raise refusal(((), " has a key without a name. Name it or remove it."))
    return {key: _spark_text(one) for key, one in value.items()}


def _spark_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _full_keys(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    full: dict[str, Any] = {}
    for key, one in value.items():
        full_key = key if not key or str(key).startswith("spark.") else f"spark.{key}"
        if full_key in full:
            raise refusal(((full_key,), " is given twice. Keep one of the two."))
        full[full_key] = one
    return full


def _short_keys(spark: Mapping[str, str]) -> dict[str, str]:
    """Return the keys without `spark.`, but keep it where the short key would itself begin with `spark.`."""
    short = {key: key.removeprefix("spark.") for key in spark}
    return {key if short[key].startswith("spark.") else short[key]: value for key, value in spark.items()}


def _span(duration_ms: int) -> int:
    if duration_ms > SPAN_MS_MAX:
        found = format_duration_ms(duration_ms)
        text = (
            f" is longer than event times can be moved. Write at most {format_duration_ms(SPAN_MS_MAX)}. found={found}"
        )
        raise refusal(((), text))
    return duration_ms


def _none_or(value: Any) -> Any:
    return None if value == "none" else value


def _duration_or_none(duration_ms: int | None) -> str:
    """Return the duration as text, or the word `none`, since a key without a value means the default."""
    return "none" if duration_ms is None else format_duration_ms(duration_ms)


def _time_zone(name: str) -> str:
    if not is_time_zone(name):
        text = (
            ": this time zone is not known. Write its name in the IANA database, such as Europe/Berlin."
            f"{did_you_mean(name, time_zones())} found={name}"
        )
        raise refusal(((), text))
    return name


def _instant(value: Any) -> Any:
    """Return a point in time in UTC.

    A text without an offset is refused: it would mean another time in another time zone.
    """
    text = value.isoformat() if isinstance(value, datetime) else value
    found = parse_instant(text) if isinstance(text, str) else None
    if found is None:
        text = (
            " must be a point in time with its offset from UTC and at most microseconds, such as "
            f"2024-06-01T00:00:00Z. found={value}"
        )
        raise refusal(((), text))
    return found


def _class(text: str) -> str:
    if not _CLASS.fullmatch(text):
        raise refusal(((), f": this does not name a class. Write it as package.module:Class. found={text}"))
    return text


def _function(text: str) -> str:
    if not _CLASS.fullmatch(text):
        raise refusal(((), f": this does not name a function. Write it as package.module:function. found={text}"))
    return text


def _arguments(value: Any) -> Any:
    return value if not isinstance(value, Mapping) else {key: _plain(one, (key,)) for key, one in value.items()}


def _plain(value: Any, path: Path) -> Any:
    """Return the value as lists, dicts and scalars, so that writing and reading it does not change it."""
    if value is None or type(value) in {bool, int, str} or (type(value) is float and math.isfinite(value)):
        return value
    if len(path) > _ARGUMENT_DEPTH_MAX:
        text = f" nests lists and sections more than {_ARGUMENT_DEPTH_MAX} deep. Make it flatter."
        raise refusal((path[:1], text))
    if isinstance(value, list | tuple):
        return [_plain(one, (*path, index)) for index, one in enumerate(value)]
    if isinstance(value, Mapping) and all(type(key) is str and key for key in value):
        return {key: _plain(one, (*path, key)) for key, one in value.items()}
    text = (
        " is nothing that a job file can hold. Make it of text, whole or finite numbers, true, false, lists and "
        f"sections with names. found={value!r}"
    )
    raise refusal((path, text))


Text = Annotated[str, AfterValidator(_one_line)]
#: text of several lines, such as SQL or a schema; it may contain any character
Lines = Annotated[str, AfterValidator(_not_blank)]
TableName = Annotated[str, AfterValidator(_table)]
Identifier = Annotated[str, AfterValidator(_identifier)]
OutputName = Annotated[str, AfterValidator(_output)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1)]
CountOrZero = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
DurationMs = Annotated[int, parsed_by(parse_duration_ms), PlainSerializer(format_duration_ms)]
PositiveDurationMs = Annotated[DurationMs, Field(gt=0)]
OptionalDurationMs = Annotated[PositiveDurationMs | None, BeforeValidator(_none_or), PlainSerializer(_duration_or_none)]
SpanMs = Annotated[PositiveDurationMs, AfterValidator(_span)]
LatenessMs = Annotated[DurationMs, AfterValidator(_span)]
#: a point in time, in UTC
Instant = Annotated[datetime, BeforeValidator(_instant), PlainSerializer(lambda at: at.isoformat())]
TimeZone = Annotated[Text, AfterValidator(_time_zone)]
ClassReference = Annotated[str, AfterValidator(_class)]
FunctionReference = Annotated[str, AfterValidator(_function)]
Arguments = Annotated[Mapping[Lines, Any], BeforeValidator(_arguments)]
PositiveBytes = Annotated[int, parsed_by(parse_bytes), Field(gt=0), PlainSerializer(format_bytes)]
Columns = Annotated[tuple[Text, ...], BeforeValidator(one_or_more)]
Expressions = Annotated[tuple[Lines, ...], BeforeValidator(one_or_more)]
Inputs = Annotated[tuple[TableName, ...], BeforeValidator(one_or_more)]
Call = Annotated[
    AggregateCall, parsed_by(_parsed(AggregateCall, AggregateCall.parse, "dataclass_type")), PlainSerializer(str)
]
OfRowsBefore = Annotated[OverCall, parsed_by(_parsed(OverCall, OverCall.parse, "dataclass_type")), PlainSerializer(str)]
Order = Annotated[OrderBy, parsed_by(_parsed(OrderBy, _order, "string_type")), PlainSerializer(str)]
Orders = Annotated[tuple[Order, ...], BeforeValidator(one_or_more)]
Options = Annotated[Mapping[str, str], BeforeValidator(_flat_texts)]
SparkSettings = Annotated[Options, BeforeValidator(_full_keys), PlainSerializer(_short_keys)]
