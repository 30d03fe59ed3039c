"""The versions of the dimensions that an attempt at an epoch reads: looked up once, and checked when it has ended.

An epoch has several Spark actions, and Spark may compute a part of one of them again. All of it has to see one version,
or rows of one epoch would contradict each other. A table of Delta Lake or Iceberg can be read at a version. Files
cannot: they are the version as long as none of them has changed, which is checked before the attempt counts.

Tasks that compute sql on Arrow get the rows of a small dimension with their queries. Spark reads a version once for it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from mixedmode.config.calls import quoted
from mixedmode.errors import LeftToSparkError, RetryableError
from mixedmode.expressions import Query, Table, TableRows, evaluate
from mixedmode.plan.job_plan import JobPlan
from mixedmode.sources.versions import HasVersions, TableVersion
from mixedmode.spark.errors import spark_text
from mixedmode.spark.frames import map_in_arrow
from mixedmode.tasks.first_bytes import FirstBytes

__all__ = ["Dimensions", "VersionsRead", "unstable"]

_logger = logging.getLogger(__name__)

#: the most rows, and bytes of what is used of them, that tasks get with their queries; Spark joins larger dimensions
ROWS_MAX = 500_000
BYTES_MAX = 32 * 2**20
READ_BYTES_MAX = 4 * BYTES_MAX  # of the columns that are read, before the query leaves out rows

#: {table of a query: (version of the dimension, what the query makes of it, or why tasks cannot have it)}
_Made = dict[Table, tuple[TableVersion, TableRows | LeftToSparkError]]


@dataclass(frozen=True, slots=True)
class VersionsRead:
    """The versions that one attempt reads, by the name of the dimension.  made: rows of this and of older versions."""

    versions: Mapping[str, TableVersion] = field(default_factory=dict)
    made: _Made = field(default_factory=dict)

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

    def reasons(self) -> dict[str, str]:
        """Return {dimension: why an attempt may have failed on it}."""
        found = {name: version.changed() or version.lost() for name, version in self.versions.items()}
        return {name: what for name, what in found.items() if what is not None}

    def in_plan(self, plan: JobPlan) -> JobPlan:
        """Return a plan whose tasks have the rows of the dimensions that SQL between steps joins.

        Where tasks cannot have them, the rows of the stage before are rows of Spark.
        """
        if not self.versions:
            return plan
        found: dict[str, dict[str, tuple[Query, ...]]] = {}
        by_spark = dict(plan.inner_by_spark)
        for reader, of_stage in plan.inner.items():
            found[reader] = {}
            for stage, queries in of_stage.items():
                try:
                    found[reader][stage] = tuple(self.with_rows(query) for query in queries)
                except LeftToSparkError as error:
                    by_spark.setdefault(stage, str(error))
        return plan.with_inner(found, by_spark)

    def with_rows(self, query: Query) -> Query:
        """Return a query with the rows of the dimensions that it joins.

        Raise LeftToSparkError if one is too large for tasks, or if two rows of it have equal keys.
        """
        return replace(query, tables=tuple(self._with_rows(table) for table in query.tables))

    def _with_rows(self, table: Table) -> Table:
        version = self.versions[table.name]
        known, rows = self.made.get(table, (None, None))
        if known is not version or rows is None:
            try:
                rows = _rows_of(version, table)
            except LeftToSparkError as error:
                _logger.info("Spark joins %s, version %s, as tasks cannot: %s", table.name, version.name, error)
                rows = error
            self.made[table] = (version, rows)
        if isinstance(rows, LeftToSparkError):
            raise rows
        return replace(table, rows=rows)


def _rows_of(version: TableVersion, table: Table) -> TableRows:
    """Read a version of a dimension, and compute the keys and the columns of a table of it."""
    columns = list(table.query.reads)
    some = version.frame.select(*(quoted(column.name) for column in columns)).limit(ROWS_MAX + 1)
    used = map_in_arrow(some, FirstBytes(READ_BYTES_MAX), some.schema).toArrow()
    if used.num_rows > ROWS_MAX or used.nbytes > READ_BYTES_MAX:
        raise _too_large(table)
    fields = [pa.field(column.name, column.data_type) for column in columns]
    batches = used.cast(pa.schema(fields)).to_batches()
    made = list(evaluate([table.query], batches))
    rows = pa.Table.from_batches(made) if made else _without_rows(table.query)
    if rows.nbytes > BYTES_MAX:
        raise _too_large(table)
    return TableRows.of(rows, table.keys, is_set=table.is_set)


def _too_large(table: Table) -> LeftToSparkError:
    return LeftToSparkError(f"the dimension {table.name} is larger than what tasks get with their queries")


def _without_rows(query: Query) -> pa.Table:
    return pa.table({name: pa.nulls(0, query.nodes[number].data_type) for name, number in query.columns})


class Dimensions:
    """The dimensions of a job. A version that is still the newest one is not looked at again."""

    def __init__(self, tables: Mapping[str, HasVersions]) -> None:
        self._tables = tables
        self._read = VersionsRead()

    def newest(self, session: SparkSession) -> VersionsRead:
        """Return the newest version of each dimension, to be read in a session.

        Raise RetryableError if Spark finds no table there.
        """
        before = {name: one for name, one in self._read.versions.items() if one.is_of(session)}
        newest = {name: _newest(name, table, session, before.get(name)) for name, table in self._tables.items()}
        made = {table: found for table, found in self._read.made.items() if newest[table.name] is found[0]}
        self._read = VersionsRead(newest, made)
        return self._read


def _newest(name: str, table: HasVersions, session: SparkSession, before: TableVersion | None) -> TableVersion:
    try:
        return table.newest(session, before)
    except AnalysisException as error:
        msg = (
            "a dimension cannot be read any more, and nothing of this epoch was committed. Put its files or its table "
            f"back, and start again: the job resumes. dimension={name}, cause={spark_text(error):.300}"
        )
        raise RetryableError(msg) from error


def unstable(changes: Mapping[str, str], attempts: int) -> RetryableError:
    """Return the error for dimensions that changed during each attempt at an epoch."""
    told = "; ".join(f"{name}: {what}" for name, what in changes.items())
    msg = (
        "files of a dimension changed or were removed each time that the epoch read them, so its rows could have been "
        "joined with two versions. Nothing of the epoch was committed. Replace the files less often, or all at once: "
        "put them into a Delta Lake or Iceberg table, whose versions can be read while it changes; there, remove old "
        "versions only when they are older than an epoch takes. "
        f"attempts={attempts}, changed={told}"
    )
    return RetryableError(msg)
