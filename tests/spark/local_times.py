"""Times without a zone stay what they are on their way to Spark; PySpark's own default differs by version."""

import pyarrow as pa

from mixedmode.spark.frames import spark_schema


def check_local_times() -> None:
    """Compare the types of both kinds of times, also within others."""
    local = pa.timestamp("us")
    kinds = {"local": local, "instant": pa.timestamp("us", "UTC"), "locals": pa.list_(local)}
    kinds |= {"pair": pa.struct({"a": local}), "by_name": pa.map_(pa.string(), local)}
    assert spark_schema(list(map(pa.field, kinds, kinds.values()))).simpleString() == (
        "struct<local:timestamp_ntz,instant:timestamp,locals:array<timestamp_ntz>,pair:struct<a:timestamp_ntz>,"
        "by_name:map<string,timestamp_ntz>>"
    )
