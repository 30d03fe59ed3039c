"""The kinds of sources and sinks that are installed, and what each of them brings.

A kind is one folder of mixedmode/connectors, or a package of somebody else. It registers one ConnectorKind as an entry
point, in its pyproject.toml:

    [project.entry-points."mixedmode.connectors"]
    kafka = "mixedmode.connectors.kafka.kind:KIND"

Everything else derives from that: the formats that a job file may name, the checks of their settings, the code that
opens them, the jars that Spark needs for them, and the meaning of their errors. The module of a kind must not import
Spark; code that does is named as `module:function`, and imported when a job needs it.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast, get_args

from pydantic import create_model

from mixedmode.config.document import Path
from mixedmode.config.fields import Section
from mixedmode.config.sinks import SideOutputSpec, SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.errors import InvalidJobError

GROUP = "mixedmode.connectors"


@dataclass(frozen=True, slots=True)
class SparkPackage:
    """Jars that are no part of Spark, and the settings of Spark that they need.

    packages: {minor version of Spark: Maven coordinates that run on it}. settings: {full key of a setting: value}.
    jars: `module:function` that returns the jars for this Spark, if the version has to be found out (spark/jars.py);
    then `packages` is empty.
    """

    name: str
    packages: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    jars: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorKind:
    """One kind of source, of sink, or of both.

    name: also the name of the entry point.
    source, sink: the settings. Their field `format` is a Literal of the formats that a job file names. The settings of
        a side output are those of the sink, and `schema`.
    keys: the keys that identify the kind in a job file, if it has no field `format`.
    open_source: `module:function` with the arguments of sources.open.open_source.
    open_sink: `module:function` with the arguments of sinks.open.open_sink.
    check_library: `module:function` of the settings of a source or sink, called before anything is opened. It raises
        InvalidJobError if a library for this kind is not installed.
    check_options: `module:function` of a Spark session and these settings, called before the job begins or goes on, and
        when it is validated. It raises InvalidJobError for options that the libraries of this kind would ignore, and
        asks no service.
    check_service: `module:function` of a Spark session and these settings, called before the job begins or goes on. It
        raises InvalidJobError or RetryableError if the service does not exist, does not answer, or refuses the login.
    packages: {format of the source or sink, or of a section in it: the jars for it}.
    errors: `module:function` from Spark's text on a failure to a MixedmodeError; to None if the text is not about this
        kind.
    source_arguments: {path of a setting of the source: its argument in Python}, where that is not the first key of the
        path with _ for -.
    """

    name: str
    source: type[SourceSpec] | None = None
    sink: type[SinkSpec] | None = None
    keys: frozenset[str] = frozenset()
    open_source: str | None = None
    open_sink: str | None = None
    check_library: str | None = None
    check_options: str | None = None
    check_service: str | None = None
    packages: Mapping[str, SparkPackage] = field(default_factory=dict)
    errors: str | None = None
    source_arguments: Mapping[Path, str] = field(default_factory=dict)
    side_output: type[SideOutputSpec] | None = field(init=False)

    def __post_init__(self) -> None:
        assert (self.source is None) == (self.open_source is None), self.name
        assert (self.sink is None) == (self.open_sink is None), self.name
        object.__setattr__(self, "side_output", None if self.sink is None else _side_output_of(self.sink))

    @property
    def sections(self) -> tuple[type[Section], ...]:
        """The settings of its source, sink and side output, as far as it has them."""
        return tuple(section for section in (self.source, self.sink, self.side_output) if section is not None)


@cache
def connector_kinds() -> Mapping[str, ConnectorKind]:
    """Return {name: kind} of all kinds that are installed, ours first.

    Raises InvalidJobError if a kind cannot be imported, if two kinds have a format in common, or if ours are missing.
    """
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (not _is_ours(entry), entry.name))
    if not any(map(_is_ours, entries)):
        msg = (
            "this installation of mixedmode names none of its connectors: it is older than the code, or there is none. "
            f"Install mixedmode again, as README.md says. entry points={GROUP}"
        )
        raise InvalidJobError(msg)
    kinds = {entry.name: _kind_at(entry) for entry in entries}
    _check_formats(kinds.values())
    return kinds


def kind_of(section: Section) -> ConnectorKind:
    """Return the kind of a source or sink."""
    return next(kind for kind in connector_kinds().values() if isinstance(section, kind.sections))


def formats_of(section: type[Section]) -> tuple[str, ...]:
    """Return the values of `format` that identify a kind; () if the kind has no format."""
    known = section.model_fields.get("format")
    return () if known is None else get_args(known.annotation)


def loaded(reference: str) -> Any:
    """Return what `module:name` names. Imports the module."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def _is_ours(entry: EntryPoint) -> bool:
    return entry.module.startswith("mixedmode.")


def _kind_at(entry: EntryPoint) -> ConnectorKind:
    """Return the kind that an entry point names. Raises InvalidJobError if there is none."""
    try:
        kind = entry.load()
    except Exception as error:  # whatever the module of another package raises
        if _is_ours(entry):
            raise
        kind, cause = None, f"{type(error).__name__}: {error}"
    else:
        cause = f"it is a {type(kind).__name__}"
    if isinstance(kind, ConnectorKind):
        return kind
    package = "unknown" if entry.dist is None else entry.dist.name
    msg = (
        "a package that adds a connector cannot be used: its entry point is no ConnectorKind. Correct or remove the "
        f"package. package={package}, entry point={entry.name}, value={entry.value}, cause={cause}"
    )
    raise InvalidJobError(msg)


def _check_formats(kinds: Iterable[ConnectorKind]) -> None:
    """Raise InvalidJobError if two kinds have a format in common: a job file could not say which one it means."""
    owners: dict[tuple[str, str], str] = {}
    for kind in kinds:
        for role, found in _formats(kind):
            owner = owners.setdefault((role, found), kind.name)
            if owner != kind.name:
                msg = (
                    f"two installed packages add a {role} of one format. Remove one of them. format={found}, "
                    f"entry points={owner}, {kind.name}"
                )
                raise InvalidJobError(msg)


def _formats(kind: ConnectorKind) -> Iterator[tuple[str, str]]:
    for role, section in (("source", kind.source), ("sink", kind.sink)):
        if section is not None:
            yield from ((role, found) for found in formats_of(section))


def _side_output_of(sink: type[SinkSpec]) -> type[SideOutputSpec]:
    """Return the settings of a side output: those of the sink, and `schema`."""
    name = f"{sink.__name__.removesuffix('SinkSpec')}SideOutputSpec"
    doc = f"{(sink.__doc__ or 'A sink.').splitlines()[0]} Of a side output, whose columns are in `schema`."
    bases: Any = (SideOutputSpec, sink)
    return cast("type[SideOutputSpec]", create_model(name, __base__=bases, __module__=sink.__module__, __doc__=doc))
