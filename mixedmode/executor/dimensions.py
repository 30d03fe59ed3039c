"""The versions of the dimensions that an attempt at an epoch reads: looked up once, and checked when it has ended.

An epoch has several Spark actions, and Spark may compute a part of one of them again. All of it has to see one version,
or rows of one epoch would contradict each other. A table of Delta Lake or Iceberg can be read at a version. Files
cannot: they are the version as long as none of them has changed, which is checked before the attempt counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from mixedmode.errors import RetryableError
from mixedmode.sources.versions import HasVersions, TableVersion

__all__ = ["Dimensions", "VersionsRead", "unstable"]


@dataclass(frozen=True, slots=True)
class VersionsRead:
    """The versions that one attempt reads, by the name of the dimension."""

    versions: Mapping[str, TableVersion] = field(default_factory=dict)

    @property
    def frames(self) -> dict[str, DataFrame]:
        """Return the rows of each dimension."""
        return {name: version.frame for name, version in self.versions.items()}

    @property
    def names(self) -> dict[str, str]:
        """Return the name of each version, for the manifest."""
        return {name: version.name for name, version in self.versions.items()}

    def changes(self) -> dict[str, str]:
        """Return {dimension: what of its version has changed or is gone since it was looked up}."""
        found = {name: version.changed() for name, version in self.versions.items()}
        return {name: what for name, what in found.items() if what is not None}


class Dimensions:
    """The dimensions of a job. A version that is still the newest one is not looked at again."""

    def __init__(self, tables: Mapping[str, HasVersions]) -> None:
        self._tables = tables
        self._read = VersionsRead()

    def newest(self, session: SparkSession) -> VersionsRead:
        """Return the newest version of each dimension, to be read in a session."""
        before = {name: one for name, one in self._read.versions.items() if one.is_of(session)}
        self._read = VersionsRead(
            {name: table.newest(session, before.get(name)) for name, table in self._tables.items()}
        )
        return self._read


def unstable(changes: Mapping[str, str], attempts: int) -> RetryableError:
    """Return the error for dimensions that changed during each attempt at an epoch."""
    told = "; ".join(f"{name}: {what}" for name, what in changes.items())
    msg = (
        "the files of a dimension changed each time that the epoch had read them, so its rows could have been joined "
        "with two versions. Nothing of the epoch was committed. Replace the files less often, or all at once: put them "
        "into a Delta Lake or Iceberg table, whose versions can be read while it changes. "
        f"attempts={attempts}, changed={told}"
    )
    return RetryableError(msg)
