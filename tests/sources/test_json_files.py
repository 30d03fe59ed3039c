"""Text files of a source: every byte is a part of a record, or the source refuses the file."""

import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.connectors.files import json_files
from mixedmode.connectors.files.json_files import doubtful_files
from mixedmode.connectors.files.source import FileSource
from mixedmode.errors import InvalidJobError
from mixedmode.job import Source
from mixedmode.sources.json_records import JsonRecords
from mixedmode.sources.source import Admission, parse_ddl
from mixedmode.spark.errors import malformed_file
from tests.harness import write_text
from tests.sources.test_paths import NAMES

pytestmark = pytest.mark.spark

DDL = "id long, name string, item struct<tags: array<string>>"
FAILED = (PySparkException, Py4JJavaError, InvalidJobError)  # as a failure within a reader is not translated
DRIFT = {"schema_drift": {"new-column": "ignore"}}


def read(spark: SparkSession, folder: Path, *columns: str, **settings: Any) -> list[Any]:
    source = Source.json(folder, schema=DDL, **settings)
    return [tuple(row) for row in FileSource(spark, source, where="here").batch().select(*columns).collect()]


def refusal(spark: SparkSession, folder: Path, *columns: str) -> str:
    """The message of the error with which the job stops; see driver/input_records.py."""
    source = FileSource(spark, Source.json(folder, schema=DDL), where="here")
    with pytest.raises(FAILED) as failure:
        source.batch().select(*columns).collect()
    url = malformed_file(failure.value)
    return str(failure.value) if url is None else str(source.wrong_record(url))


def in_folder(folder: Path, data: bytes, name: str = "a.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder


NOT_ONE_VALUE = [
    '{"id":1}{"id":2}',
    '{"id":1} {"id":2}',
    '{"id":1} GARBAGE',
    '{"id":1},',
    '{"id":1},{"id":2}',
    '{"id":1}}',
    '{"id":1}]} x',
    '{"id":1}]]} x',
    '{"id":1}],[{"id":2}',
    '{"id":1}]],"x":[[{"id":2}',
    '{"id":1,"item":{"tags":["}"]}} 2',
    '[{"id":1}] x',
    '[{"id":1}],[{"id":2}]',
    "1",
    '"text"',
    "[1]",
]


def test_a_text_that_is_not_one_value_is_told_from_one_that_is(spark: SparkSession) -> None:
    one = [
        '{"id":1}',
        ' {"id":1} ',
        '[{"id":1},{"id":2}]',
        "[]",
        "",
        '{"name":"}]]} {"}',
        '{"item":{"tags":["]","}"]}}',
    ]
    records = JsonRecords(parse_ddl(DDL, where="here"), {})
    texts = spark.createDataFrame([(text,) for text in NOT_ONE_VALUE + one], "text string")
    decoded = records.decoded(F.col("text"), takes_arrays=True)
    found = texts.select("text", records.is_whole(decoded) & records.is_single(F.col("text"), decoded)).collect()
    assert [row[0] for row in found if row[1]] == one


@pytest.mark.parametrize("settings", [{}, DRIFT], ids=["plain", "drift"])
@pytest.mark.parametrize("line", ['{"id":1}{"id":2}', '{"id":1} GARBAGE', '[{"id":1},null]', "null"])
def test_a_file_with_a_line_that_is_not_one_value_is_refused(
    spark: SparkSession, tmp_path: Path, line: str, settings: dict[str, Any]
) -> None:
    folder = in_folder(tmp_path / "in", b'{"id":0}\n' + line.encode() + b"\n")
    with pytest.raises(FAILED, match=r"a\.json"):
        read(spark, folder, **settings)


def test_a_line_may_be_blank_or_hold_what_looks_like_an_end(spark: SparkSession, tmp_path: Path) -> None:
    lines = ['\ufeff{"id":1,"name":"}]]} {"}', "", "  \t", ' {"id":2} \r', '{"id":3,"item":{"tags":["]","}"]}}']
    folder = in_folder(tmp_path / "in", "\n".join(lines).encode())
    assert read(spark, folder, "id", "name") == [(1, "}]]} {"), (2, None), (3, None)]


def test_an_array_of_objects_is_a_row_for_each(spark: SparkSession, tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "in", b'[{"id":1},{"id":2}]\n[]\n {"id":3}\n')
    assert read(spark, folder, "id") == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('\ufeff[\n{"id":1},\n{"id":2}\n]\n', [1, 2]),
        ('{\n"id":1\n}\n', [1]),
        ('{"id":1}\n{"id":2}\n', None),
        ('{"id":1}\n]\n', None),
    ],
)
def test_a_file_of_several_lines_is_one_value(
    spark: SparkSession, tmp_path: Path, text: str, expected: list[int] | None
) -> None:
    folder = in_folder(tmp_path / "in", text.encode())
    options = {"options": {"multiLine": True}}
    if expected is None:
        with pytest.raises(FAILED, match=r"a\.json"):
            read(spark, folder, "id", **options)
    else:
        assert [number for (number,) in read(spark, folder, "id", **options)] == expected


def test_bytes_that_are_not_text_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "in", b'{"id":1,"name":"\xff"}\n')
    with pytest.raises(FAILED, match=r"a\.json"):
        read(spark, folder, "id")


def test_another_encoding_and_line_end_are_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "in", '{"id":1,"name":"ü"}|{"id":2}'.encode("latin-1"))
    options = {"options": {"encoding": "ISO-8859-1", "lineSep": "|"}}
    assert read(spark, folder, "id", "name", **options) == [(1, "ü"), (2, None)]


def test_columns_may_be_in_the_names_of_folders(spark: SparkSession, tmp_path: Path) -> None:
    in_folder(tmp_path / "in" / "name=x", b'{"id":1}\n')
    in_folder(tmp_path / "in" / "name=01", b'{"id":2}\n')
    assert sorted(read(spark, tmp_path / "in", "id", "name")) == [(1, "x"), (2, "01")]
    source = FileSource(spark, Source.json(tmp_path / "in", schema=DDL), where="here")
    assert source.stream(Admission()).schema.simpleString() == source.schema.simpleString()


def test_a_value_that_no_step_reads_is_checked_too(spark: SparkSession, tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "in", b'{"id":"one","name":"a"}\n')
    assert re.search(r"a\.json, line=1, .*one", refusal(spark, folder, "name"))


@pytest.mark.parametrize("data", [b"x", b"\0" * 20], ids=["garbage", "zeros"])
def test_a_compressed_file_with_something_behind_it_is_refused(
    spark: SparkSession, tmp_path: Path, data: bytes
) -> None:
    line = gzip.compress(json.dumps({"id": 1}).encode() + b"\n")
    assert read(spark, in_folder(tmp_path / "whole", line, "a.json.gz"), "id") == [(1,)]
    for number, wrong in enumerate((line + data, line[:-4])):
        with pytest.raises(FAILED):
            read(spark, in_folder(tmp_path / str(number), wrong, "a.json.gz"), "id")


@pytest.mark.parametrize("columns", [["a"], ["b"], []], ids=str)
@pytest.mark.parametrize("line", ["2,x,3", "2"], ids=["more", "fewer"])
def test_a_line_of_csv_has_a_value_for_each_column_whatever_is_read(
    spark: SparkSession, tmp_path: Path, line: str, columns: list[str]
) -> None:
    folder = in_folder(tmp_path / "in", f"1,x\n{line}\n".encode(), "a.csv")
    source = FileSource(spark, Source.csv(folder, schema="a long, b string"), where="here")
    with pytest.raises(FAILED, match="MALFORMED"):
        source.batch().select(*columns).collect()


LINES = [
    '{"id":1,"name":"a","item":{"tags":["x","}"]}}',
    '{"id":null}',
    "{}",
    "",
    "  \t",
    ' {"name":"ü \\u00fc } {\\"","id":2} ',
    '[{"id":3},{"id":4,"name":null}]',
    "[]",
    '{"id":5,"other":{"deep":[{"a":[]},{}]},"name":"1"}\r',
    '{"name":7,"id":6}',
    '{"name":{"x":1},"id":8}',
]
WRONG = ['{"id":"one"}', '{"id":1.5}', '{"id":9223372036854775808}', '{"item":[]}', '{"id":1', "x", "null", "1", "[1]"]


def spark_rows(spark: SparkSession, folder: Path) -> list[Any]:
    rows = spark.read.schema(DDL).json(str(folder), mode="FAILFAST").select("id", "name", "item").collect()
    return [tuple(row) for row in rows]


def test_without_text_behind_a_value_the_rows_are_those_of_sparks_reader(spark: SparkSession, tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "in", ("\ufeff" + "\n".join(LINES)).encode())
    found = read(spark, folder, "id", "name", "item")
    assert found == spark_rows(spark, folder)
    assert [row[0] for row in found] == [1, None, None, 2, 3, 4, 5, 6, 8]


@pytest.mark.parametrize("line", WRONG)
def test_a_value_that_sparks_reader_refuses_is_refused_with_file_and_line(
    spark: SparkSession, tmp_path: Path, line: str
) -> None:
    folder = in_folder(tmp_path / "in", f'\n{{"id":1}}\n{line}\n{{"id":2}}'.encode())
    told = refusal(spark, folder, "id")
    assert re.search(
        rf"file=file:\S+/a\.json, line=3, (column=(id|item), type_in_schema=[a-z<:>]+, )?record={re.escape(line)}$",
        told,
    )


def test_a_line_that_a_filter_leaves_out_is_checked_too(spark: SparkSession, tmp_path: Path) -> None:
    folder = in_folder(tmp_path / "in", b'{"id":1,"name":"a","item":"none"}\n{"id":2}\n')
    with pytest.raises(FAILED):
        read_where(spark, folder, "id > 1")


def read_where(spark: SparkSession, folder: Path, condition: str) -> list[Any]:
    return (
        FileSource(spark, Source.json(folder, schema=DDL), where="here").batch().where(condition).select("id").collect()
    )


def test_text_behind_a_value_is_found_in_a_file_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Spark writes names of files as URLs; a name that is read as another one would be a file without lines."""
    source, urls = some_doubtful(spark, tmp_path)
    for name in NAMES[::2]:
        source.check_files({urls[f"{name}.json"]: (1, 1)})
    for name in NAMES[1::2]:
        with pytest.raises(InvalidJobError):
            source.check_files({urls[f"{name}.json"]: (1, 1)})


def test_tasks_find_the_same_files_as_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, urls = some_doubtful(spark, tmp_path)
    monkeypatch.setattr(json_files, "_SMALL_BYTES", 0)
    found = doubtful_files(spark, [str(tmp_path / name) for name in urls])
    assert {Path(path).stem for path in found} == set(NAMES[1::2])
    source.check_files({urls[f"{name}.json"]: (1, 1) for name in NAMES[::2]})
    with pytest.raises(InvalidJobError):
        source.check_files(dict.fromkeys(urls.values(), (1, 1)))


def some_doubtful(spark: SparkSession, folder: Path) -> tuple[FileSource, dict[str, str]]:
    """Return a source over files, of which every second one has text behind a value, and {name: URL} of the files."""
    for number, name in enumerate(NAMES):
        text = f'{{"id": {number}}} {{"id": -1}}\n' if number % 2 else f'{{"id": {number}}}\n'
        write_text(folder, f"{name}.json", text)
    urls = {Path(unquote(url)).name: url for url in spark.read.text(str(folder)).inputFiles()}
    assert set(urls) == {f"{name}.json" for name in NAMES}
    return FileSource(spark, Source.json(folder, schema=DDL), where="here"), urls
