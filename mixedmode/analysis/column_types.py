"""The types of columns that leave Spark's SQL, as Arrow types: for the input of a step, and for the rows of an output.

Steps compare text byte by byte, in keys, orders and stored state. A type of Arrow has no collation, so a column with
one would lose it silently. An output only writes text, so its columns may have a collation.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from mixedmode.errors import InvalidJobError
from mixedmode.spark.frames import IN_UTC

__all__ = ["input_fields", "input_type", "output_fields"]

_BYTE_BY_BYTE = "UTF8_BINARY"
#: {type that Arrow has only as a struct of Spark's own bytes: what makes another type of its values}
_ENCODED = {"variant": "to_json(x)", "geometry": "ST_AsBinary(x)", "geography": "ST_AsBinary(x)"}


def input_fields(schema: StructType, where: str) -> tuple[pa.Field, ...]:
    """Return Spark's columns as Arrow fields. Raise InvalidJobError, beginning with `where`, as input_type does."""
    return tuple(pa.field(field.name, input_type(field.dataType, f"{where}: {field.name}")) for field in schema)


def input_type(data_type: DataType, where: str) -> pa.DataType:
    """Return the type of a value that a step reads. Raise InvalidJobError, beginning with `where`, if none does."""
    texts = [part for part in _parts(data_type) if isinstance(part, StringType)]
    collations = sorted({part.collation for part in texts} - {_BYTE_BY_BYTE})
    if collations:
        msg = (
            f"{where}: a step compares text byte by byte, in keys, orders and its state, so texts that the collation "
            "takes for equal would differ. Compute the text to compare in a sql step before, as in "
            "CAST(lower(k) AS STRING COLLATE UTF8_BINARY), or keep the text as it is with "
            f"CAST(k AS STRING COLLATE UTF8_BINARY). collation={collations[0]}, type={data_type.simpleString()}"
        )
        raise InvalidJobError(msg)
    return _output_type(data_type, where)


def output_fields(schema: StructType, where: str) -> tuple[pa.Field, ...]:
    """Return Spark's columns as the Arrow fields of an output, whose text may have a collation.

    Raise InvalidJobError, beginning with `where`, for a type that cannot leave Spark's SQL.
    """
    return tuple(pa.field(field.name, _output_type(field.dataType, f"{where}: {field.name}")) for field in schema)


def _output_type(data_type: DataType, where: str) -> pa.DataType:
    for part in _parts(data_type):
        names = part.names if isinstance(part, StructType) else []
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            msg = (
                f"{where}: two fields of a struct have one name, and no row outside of Spark's SQL can have that. "
                f"Give each field a name of its own in a sql step. field={twice}, type={data_type.simpleString()}"
            )
            raise InvalidJobError(msg)
        if part.typeName() in _ENCODED:
            raise InvalidJobError(_only_in_sql(data_type, where, _ENCODED[part.typeName()]))
    try:
        return _nullable(to_arrow_type(data_type, **IN_UTC))
    except PySparkException as error:
        raise InvalidJobError(_only_in_sql(data_type, where, "CAST(x AS STRING)")) from error


def _only_in_sql(data_type: DataType, where: str, converted: str) -> str:
    return (
        f"{where}: values of this type exist only within Spark's SQL. Convert the column in a sql step, as in "
        f"{converted}, or leave it out. type={data_type.simpleString()}"
    )


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """Return the type in which each part may be NULL.

    Where a struct is NULL, Spark's arrays have NULL in its fields, too, even in those of a struct that are never NULL.
    Arrow neither casts nor writes such an array as one of never-NULL fields.
    """
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_nullable(data_type.key_type), _nullable(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(pa.field(data_type.value_field.name, _nullable(data_type.value_type)))
    return data_type


def _parts(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and all types inside it."""
    yield data_type
    inner: list[DataType] = []
    if isinstance(data_type, StructType):
        inner = [field.dataType for field in data_type]
    elif isinstance(data_type, ArrayType):
        inner = [data_type.elementType]
    elif isinstance(data_type, MapType):
        inner = [data_type.keyType, data_type.valueType]
    for one in inner:
        yield from _parts(one)
