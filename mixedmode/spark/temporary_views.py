"""Temporary views, by which SQL texts read frames.

They are put into the catalog of the session. PySpark's own way is a command of Spark, with a plan, an execution and
events, which takes far longer. When PySpark drops a view, Spark also makes each frame anew that it is persisting and
that has the view's plan in its own. A stage that two readers read would run twice.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from mixedmode.spark.active_session import active
from mixedmode.spark.java_classes import java_class

__all__ = ["set_view", "views"]

_Java = Any  # an object of the JVM

_TABLE_IDENTIFIER = "org.apache.spark.sql.catalyst.TableIdentifier"
_PATTERN = "mixedmode_pattern"  # the name of the view that others are made like
_Entry = Callable[[str, _Java], _Java]  # makes the entry of a catalog of a name and a plan

_entries: dict[SparkContext, _Entry] = {}  # one, of the Spark that runs; a streaming query has a session of its own


@contextlib.contextmanager
def views(session: SparkSession, frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Register `frames` as temporary views, by their names, while the block runs. Views of these names come back."""
    catalog = _catalog(session)
    with active(session):
        before = {name: catalog.getRawTempView(name) for name in frames}
        try:
            for name, frame in frames.items():
                _set(session, name, frame)
            yield
        finally:
            for name, entry in before.items():
                if entry.isDefined():
                    catalog.createTempView(name, entry.get(), True)
                else:
                    catalog.dropTempView(name)


def set_view(session: SparkSession, name: str, frame: DataFrame) -> None:
    """Make a frame the temporary view of a name. A view of the same name is lost."""
    with active(session):
        _set(session, name, frame)


def _set(session: SparkSession, name: str, frame: DataFrame) -> None:
    context = session.sparkContext
    entry = _entries.get(context)
    if entry is None:
        entry = _entries_of(session)
        _entries.clear()  # jobs in other threads may do the same now, so nothing here relies on what they leave
        _entries[context] = entry
    _catalog(session).createTempView(name, entry(name, frame._jdf.logicalPlan()), True)


def _catalog(session: SparkSession) -> _Java:
    return session._jsparkSession.sessionState().catalog()


def _entries_of(session: SparkSession) -> _Entry:
    """Return the function that makes entries, like one that Spark has made: versions of Spark have other fields."""
    session.range(0)._jdf.createOrReplaceTempView(_PATTERN)  # functions of pipelines may not call PySpark's own
    pattern = _catalog(session).getRawTempView(_PATTERN).get()
    _catalog(session).dropTempView(_PATTERN)
    table = pattern.tableMeta()
    _name, kind, storage, _schema, *others = map(table.productElement, range(table.productArity()))
    identifier, option = (java_class(session.sparkContext, name) for name in (_TABLE_IDENTIFIER, "scala.Option"))

    def entry(name: str, plan: _Java) -> _Java:
        return pattern.copy(table.copy(identifier(name), kind, storage, plan.schema(), *others), option.apply(plan))

    return entry
