"""Folders of partitions: types that Spark misreads in names, and files beside such folders, are refused."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, DecimalType, IntegerType, LongType, ShortType, StringType, StructType

from mixedmode.connectors.files.partition_folders import PartitionFolders
from mixedmode.connectors.files.source import FileSource
from mixedmode.errors import InvalidJobError
from mixedmode.job import Source
from tests.harness import write_text

TEXT = StringType()
BESIDE = (
    "t: a file is beside folders of partitions, so it has no value for their columns, and Spark would pass over it. "
    "Move it into such a folder, or into a source of its own. "
)


def folders(
    path: Path | str, data_type: DataType = TEXT, options: Mapping[str, str] = MappingProxyType({})
) -> PartitionFolders:
    schema = StructType().add("v", IntegerType()).add("Zip", data_type)
    return PartitionFolders.of(Source.json(path, schema="v int", options=options), schema)


def refusal(found: PartitionFolders, *urls: str) -> str:
    with pytest.raises(InvalidJobError) as caught:
        found.check(urls, "t")
    return str(caught.value)


@pytest.mark.parametrize("below", ["zip=1/a.json", "day=x/zip=1/a.json", "ZIP=300/a.json"])
def test_a_type_that_spark_misreads_is_refused_at_validation_and_in_later_files(tmp_path: Path, below: str) -> None:
    message = (
        "t: Spark misreads names of folders as this type: zip=300 as tinyint is 44, and price=1 as decimal(10,2) may "
        "be 0.01. Declare the column as bigint or string in `schema`, and cast it in a sql step. column=zip, type="
    )
    assert refusal(folders(tmp_path, ShortType()), f"file://{tmp_path}/{below}") == f"{message}smallint"
    (tmp_path / below).parent.mkdir(parents=True)
    later = folders(tmp_path, DecimalType(10, 2))
    with pytest.raises(InvalidJobError) as caught:
        later.check_present("t")
    assert str(caught.value) == f"{message}decimal(10,2)"
    for data_type in (LongType(), IntegerType(), StringType()):
        other = folders(tmp_path, data_type)
        other.check_present("t")
        other.check([f"file://{tmp_path}/{below}"], "t")


def test_a_column_of_the_files_may_have_any_type(tmp_path: Path) -> None:
    for path in (tmp_path / "zip=1", tmp_path / "zip=*", tmp_path / "zip=1" / "*.json"):
        write_text(tmp_path / "zip=1", "a.json", '{"v": 1}\n')
        found = folders(path, ShortType())
        found.check_present("t")
        found.check([f"file://{tmp_path}/zip=1/a.json"], "t")


@pytest.mark.parametrize("is_present", [False, True])
def test_a_file_beside_folders_of_partitions_is_refused(tmp_path: Path, is_present: bool) -> None:
    root = tmp_path / "a=b c"
    root.mkdir()
    url = f"file://{tmp_path}/a=b%20c"
    if is_present:
        (root / "day=1" / "zip=1").mkdir(parents=True)
        assert refusal(folders(root), f"{url}/x.json") == f"{BESIDE}file={url}/x.json, columns=day, zip"
    inside = f"{url}/day=2/zip=x%253Dy/x.json"
    for beside in (f"{url}/x.json", f"{url}/day=1/x.json"):
        assert refusal(folders(root), beside, inside) == f"{BESIDE}file={beside}, columns=day, zip"
        assert refusal(folders(root), inside, beside) == f"{BESIDE}file={beside}, columns=day, zip"
    found = folders(root)
    found.check([inside, inside.replace("day=2", "day=3")], "t")


@pytest.mark.parametrize("name", ["zip=%25C3%25A4", "zip=a%25e4", "z%25FCp=1"])
def test_a_name_in_escaped_bytes_is_refused_and_others_are_read(tmp_path: Path, name: str) -> None:
    """The URLs of Spark escape each name once more."""
    message = (
        "t: a folder of a partition has characters in its name that are not ASCII, each as bytes with %, and Spark "
        "would read each byte as a character: %C3%A4 is not ä. Rename the folder with the characters themselves. "
    )
    url, folder = f"file://{tmp_path}", unquote(name)
    assert refusal(folders(tmp_path), f"{url}/{name}/a.json") == (
        f"{message}folder={folder}, new_name={unquote(folder)}"
    )
    folders(tmp_path).check([f"{url}/zip=%C3%A4%2525%252F%257F/a.json", f"{url}/zip=100%25/%25C3%25A4.json"], "t")
    folders(tmp_path, options={"recursiveFileLookup": "true"}).check([f"{url}/{name}/a.json"], "t")


@pytest.mark.spark
def test_spark_misreads_only_names_in_escaped_bytes(spark: SparkSession, tmp_path: Path) -> None:
    texts = ["ä", "a b", "a/b", "+", "100%", "a=b", "'", "\x7f", "😀", "a\nb"]
    for escape in (False, True):
        for number, text in enumerate(texts):
            folder = tmp_path / f"{escape}-{number}"
            name = quote(text, safe="") if escape else text.translate({ord(c): quote(c, safe="") for c in "/%=\x7f\n"})
            write_text(folder / f"zip={name}", "a.json", '{"v": 1}\n')
            source = FileSource(spark, Source.json(folder, schema="v int, zip string"), where="t")
            if escape and not text.isascii():
                with pytest.raises(InvalidJobError, match="in its name that are not ASCII"):
                    source.batch()
            else:
                assert [row["zip"] for row in source.batch().collect()] == [text]


def test_files_without_such_folders_and_sources_that_look_for_none_are_not_judged(tmp_path: Path) -> None:
    (tmp_path / "zip=1").mkdir()
    plain = folders(f"{tmp_path}/in")
    plain.check([f"file://{tmp_path}/in/a.json"], "t")
    for options in ({"recursiveFileLookup": "true"}, {"basePath": str(tmp_path)}):
        folders(tmp_path, ShortType(), options).check([f"file://{tmp_path}/zip=1/a.json", f"file://{tmp_path}/a"], "t")
    folders("s3a://bucket/in/*", ShortType()).check(["s3a://bucket/in/zip=1/a.json", "s3a://bucket/in/a"], "t")
    assert refusal(folders("s3a://bucket/in", ShortType()), "s3a://bucket/in/zip=1/a.json").startswith(
        "t: Spark misreads"
    )


NAMES = ("007", "300", "3000000000", "1.5", "true", "2024-01-01")
TYPES = ("int", "bigint", "double", "boolean", "date", "timestamp", "string")


@pytest.mark.spark
def test_every_other_type_is_read_as_a_cast_reads_the_name(spark: SparkSession, tmp_path: Path) -> None:
    casts = [f"CAST(try_cast(zip AS {kind}) AS string) AS `{kind}`" for kind in TYPES]
    for number, name in enumerate(NAMES):
        write_text(tmp_path / str(number) / f"zip={name}", "a.json", '{"v": 1}\n')
        (expected,) = spark.createDataFrame([(name,)], "zip string").selectExpr(*casts).collect()
        for kind in TYPES:
            source = Source.json(tmp_path / str(number), schema=f"v int, zip {kind}")
            with suppress(PySparkException):  # it refuses some names that a cast takes, such as 1.5 as a whole number
                rows = FileSource(spark, source, where="t").batch().selectExpr("CAST(zip AS string) AS zip")
                assert [row["zip"] for row in rows.collect()] == [expected[kind]], (name, kind)
