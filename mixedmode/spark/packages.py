"""The Spark packages and settings that a job's connectors need. The job's `spark` section overrides them.

If the job sets `jars` or `jars.packages`, even to an empty text, nothing is added to it. So a job sets
`jars.packages: ""` on a cluster without a network, where the jars are installed.
"""

from collections.abc import Iterable, Iterator

import pyspark

from mixedmode.config import JobSpec
from mixedmode.config.fields import Section
from mixedmode.config.registry import SparkPackage, connector_kinds, loaded
from mixedmode.errors import InvalidJobError

_JARS, _PACKAGES, _EXTENSIONS = "spark.jars", "spark.jars.packages", "spark.sql.extensions"
_JOINED = {_JARS, _PACKAGES, _EXTENSIONS}  # lists, in which several connectors may be


def connector_settings(spec: JobSpec, *, spark_version: str = pyspark.__version__) -> dict[str, str]:
    """Return the settings of a session that can open all sources and sinks of a job. The job's settings override them.

    The first call fetches jars. Raise InvalidJobError if a connector has no build for this Spark and the job names no
    jars itself; raise RetryableError if jars are not available.
    """
    formats = {str(section.format) for section in _sections(spec) if hasattr(section, "format")}
    settings: dict[str, str] = {}
    known = {name: package for kind in connector_kinds().values() for name, package in kind.packages.items()}
    for connector in (known[name] for name in sorted(formats & known.keys())):
        own = dict(connector.settings)
        if not {_JARS, _PACKAGES} & spec.spark.keys():
            if connector.jars is None:
                own[_PACKAGES] = _package(connector, spark_version)
            else:
                own[_JARS] = ",".join(map(str, loaded(connector.jars)()))
        for key, value in own.items():
            settings[key] = f"{settings[key]},{value}" if key in _JOINED and key in settings else value
    return settings


def _package(connector: SparkPackage, spark_version: str) -> str:
    package = connector.packages.get(".".join(spark_version.split(".")[:2]))
    if package is None:
        versions = ", ".join(connector.packages)
        newest = list(connector.packages)[-1]
        msg = (
            f"there is no build of {connector.name} for this version of Spark, and the job has a source or sink of "
            f"that kind. Install a version that has one: pip install 'pyspark=={newest}.*'. If you have a build, name "
            f"it in `spark: {{jars: ...}}`. pyspark={spark_version}, versions with a build={versions}"
        )
        raise InvalidJobError(msg)
    return package


def _sections(spec: JobSpec) -> Iterator[Section]:
    """Yield every source and sink of a job, and the sections within them."""
    yield from _with_inner([*spec.sources.values(), *spec.dimensions.values(), *spec.sinks.values()])


def _with_inner(sections: Iterable[Section]) -> Iterator[Section]:
    for section in sections:
        yield section
        yield from _with_inner(value for _, value in section if isinstance(value, Section))
