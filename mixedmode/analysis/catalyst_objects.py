"""Catalyst's objects by py4j: their kinds, ids and sequences. Each access is a round trip to the JVM."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from mixedmode.spark.java_classes import java_class

__all__ = [
    "BETWEEN",
    "columns_of",
    "companion",
    "id_of",
    "ids_of",
    "items_of",
    "kind_of",
    "rows_of",
    "sequence_of",
    "view_name",
]

_Java = Any  # an object of the JVM

_CATALYST = "org.apache.spark.sql.catalyst"
BETWEEN = "\x1f,\x1f"  # joins the texts of columns; no name has it
#: the text of a column: its name and id, and what Spark adds for some types and for a watermark
_COLUMN = re.compile(r"(.*)#([0-9]+)(?:L|-T[0-9]+ms)*", re.DOTALL)


def kind_of(found: _Java) -> str:
    """Return the simple name of the class of a plan or an expression, by one call."""
    return str(_class_name(found._gateway_client)(found))


@lru_cache(maxsize=4)
def _class_name(client: Any) -> _Java:
    """Return the function of a library of Spark's that names the class of an object."""
    return JavaClass("org.apache.commons.lang3.ClassUtils", client).getSimpleName


def columns_of(columns: _Java) -> list[tuple[str, int]]:
    """Return (name, id) of the columns in a sequence, such as the output of a plan, by one call."""
    texts = str(columns.mkString(BETWEEN))
    found = [_COLUMN.fullmatch(text) for text in texts.split(BETWEEN)] if texts else []
    assert all(found), texts
    return [(one[1], int(one[2])) for one in found if one is not None]


def ids_of(columns: _Java) -> list[int]:
    """Return the ids of the columns in a sequence, by one call."""
    return [number for _, number in columns_of(columns)]


def id_of(column: _Java) -> int:
    """Return the id of a column, or of an expression with a name, by one call."""
    found = _COLUMN.fullmatch(str(column.toString()))
    assert found is not None, column
    return int(found[2])


def items_of(sequence: _Java) -> Iterator[_Java]:
    """Yield the items of a sequence of Scala."""
    return (sequence.apply(index) for index in range(sequence.size()))


def view_name(view: _Java) -> str:
    """Return the name of a view. Views of a catalog and global ones have a database in it, those of a session none."""
    return str(view.desc().identifier().unquotedString())


def sequence_of(session: SparkSession, items: list[_Java]) -> _Java:
    """Return a sequence of Scala."""
    return java_class(session.sparkContext, "org.apache.spark.api.python.PythonUtils").toSeq(items)


@lru_cache(maxsize=16)
def companion(session: SparkSession, name: str) -> _Java:
    """Return an object of Catalyst. A session is asked once."""
    return getattr(java_class(session.sparkContext, f"{_CATALYST}.{name}$"), "MODULE$")


@lru_cache(maxsize=4)
def rows_of(session: SparkSession) -> _Java:
    """Return the function that makes rows of a session and a plan. A session is asked once."""
    return java_class(session.sparkContext, "org.apache.spark.sql.classic.Dataset").ofRows
