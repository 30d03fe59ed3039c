"""The sources of a streaming DataFrame and the tables that it is joined with, as the settings of a job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from mixedmode.analysis.catalyst_objects import items_of, kind_of
from mixedmode.errors import InvalidJobError
from mixedmode.spark.java_classes import java_class

__all__ = ["LEAVES", "TABLE", "OtherSourceError", "StreamSource", "refuse", "stream_source", "table_source"]

_Java = Any  # an object of the JVM

#: kinds of the nodes that read a source
LEAVES = frozenset({"StreamingRelation", "StreamingRelationV2"})
#: the kind of the node that reads files which are no stream
TABLE = "LogicalRelation"
_FORMATS = ("parquet", "json", "csv")
#: {option of Spark's reader in lower case: the argument of a source that it is here}
_ARGUMENTS = {
    "path": "path",
    "maxfilespertrigger": "max_files_per_epoch",
    "maxbytespertrigger": "max_bytes_per_epoch",
}


#: Spark's mark of a column that is not in the records
_OF_FILES = "__metadata_col"


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A source: its format, and its other arguments as `Source.of` takes them."""

    format: str
    arguments: Mapping[str, Any]


class OtherSourceError(InvalidJobError):
    """A stream reads a source whose settings a job does not find in its plan."""


def refuse(found: str, instead: str) -> NoReturn:
    """Raise the error of a part of a query that a job does not have.  instead: what to do."""
    msg = f"Job.from_stream: a job cannot take over this part of the query. {instead} found={found}"
    raise InvalidJobError(msg)


def stream_source(session: SparkSession, leaf: _Java) -> StreamSource:
    """Return the source that a node reads. Raise InvalidJobError for one that a job does not have in this way."""
    if any(column.metadata().contains(_OF_FILES) for column in items_of(leaf.output())):
        msg = (
            "Job.from_stream: the query reads _metadata, which Spark makes of the files and no record has. Write it "
            "into the records before they come here, or remove it."
        )
        raise InvalidJobError(msg)
    name = str(leaf.sourceName() if kind_of(leaf) == "StreamingRelationV2" else leaf.dataSource().className()).lower()
    if name not in _FORMATS or kind_of(leaf) != "StreamingRelation" or leaf.dataSource().catalogTable().isDefined():
        msg = (
            "Job.from_stream: the stream reads a source whose settings cannot be taken over; those of files of "
            f"{', '.join(_FORMATS)} can. Declare the source with `Source`, such as Source.kafka or Source.delta, and "
            f"write the query as steps: Job(name, sources={{...}}).sql(...). found={name}"
        )
        raise OtherSourceError(msg)
    return _of_files(session, name, leaf, leaf.dataSource().options())


def table_source(session: SparkSession, leaf: _Java) -> StreamSource:
    """Return the table that a node reads, as a source. Raise InvalidJobError for one that no dimension has."""
    relation = leaf.relation()
    is_files = kind_of(relation) == "HadoopFsRelation" and not leaf.catalogTable().isDefined()
    name = str(relation.fileFormat().toString()).lower() if is_files else kind_of(relation)
    if name not in _FORMATS or relation.location().rootPaths().size() != 1:
        msg = (
            "Job.from_stream: the stream is joined with a table whose settings cannot be taken over; those of files of "
            f"{', '.join(_FORMATS)} in one folder can. Declare it with Job.dimension, and write the query as steps: "
            f"Job(name, sources={{...}}).dimension(...).sql(...). found={name}"
        )
        raise InvalidJobError(msg)
    return _of_files(session, name, leaf, relation.options())


def _of_files(session: SparkSession, name: str, leaf: _Java, options: _Java) -> StreamSource:
    """Return files as a source.  options: those of Spark's reader."""
    given = {str(key): str(options.get(key).get()) for key in items_of(options.keySet().toSeq())}
    arguments = {_ARGUMENTS[key.lower()]: value for key, value in given.items() if key.lower() in _ARGUMENTS}
    if "path" in arguments:
        arguments["path"] = _resolved(session, arguments["path"])
    counted = {key: int(value) if key == "max_files_per_epoch" else value for key, value in arguments.items()}
    others = {key: value for key, value in given.items() if key.lower() not in {*_ARGUMENTS, "inferschema"}}
    return StreamSource(name, {**counted, "schema": str(leaf.schema().asNullable().toDDL()), "options": others})


def _resolved(session: SparkSession, path: str) -> str:
    """Return a path as the stream reads it: from the folder in which Spark was started, if it is relative."""
    found = java_class(session.sparkContext, "org.apache.hadoop.fs.Path")(path)
    if found.isAbsolute():
        return path
    settings = java_class(session.sparkContext, "org.apache.spark.deploy.SparkHadoopUtil").get().conf()
    return str(found.getFileSystem(settings).makeQualified(found).toString()).removeprefix("file:")
