"""Checks services, libraries and options of the sources and sinks of a job, as their kinds say (config/registry.py).

The checks run before the start claims a generation or commits. All of them run, so one report has all problems.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from mixedmode.analysis.problems import collecting
from mixedmode.config import JobSpec
from mixedmode.config.document import Path
from mixedmode.config.registry import ConnectorKind, kind_of, loaded
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.errors import MixedmodeError
from mixedmode.plan.keyed_operators import Where


def library_problems(spec: JobSpec, where: Where) -> list[MixedmodeError]:
    """Return a problem for each source or sink whose library is not installed."""
    found: list[MixedmodeError] = []
    for path, section in _sections(spec):
        check = kind_of(section).check_library
        if check is not None:
            with collecting(found, where=where(*path)):
                loaded(check)(section)
    return found


def option_problems(session: SparkSession, spec: JobSpec, where: Where) -> list[MixedmodeError]:
    """Return a problem for each source or sink with options that its libraries would ignore."""
    return _problems(session, spec, where, lambda kind: kind.check_options)


def connection_problems(session: SparkSession, spec: JobSpec, where: Where) -> list[MixedmodeError]:
    """Return a problem for each service that does not exist, cannot be reached, or refuses the login."""
    return _problems(session, spec, where, lambda kind: kind.check_service)


def _problems(
    session: SparkSession, spec: JobSpec, where: Where, check_of: Callable[[ConnectorKind], str | None]
) -> list[MixedmodeError]:
    found: list[MixedmodeError] = []
    for path, section in _sections(spec):
        check = check_of(kind_of(section))
        if check is not None:
            with collecting(found, where=where(*path)):
                loaded(check)(session, section)
    return found


def _sections(spec: JobSpec) -> Iterator[tuple[Path, SourceSpec | SinkSpec]]:
    for name, source in spec.sources.items():
        yield ("sources", name), source
        yield from ((("sources", name, *path), side) for path, side in source.inner_sources.items())
    yield from ((("dimensions", name), table) for name, table in spec.dimensions.items())
    yield from spec.sinks.items()
