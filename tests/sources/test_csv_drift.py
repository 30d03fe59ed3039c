"""With schema-drift, CSV has the values of Spark's own reader, or the file is refused."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mixedmode.config.drift import Drift
from mixedmode.connectors.files.csv_values import CsvDialect, read_values
from mixedmode.connectors.files.source import FileSource
from mixedmode.errors import InvalidJobError
from mixedmode.job import Source

PLAIN = ["1", "-2", "", "NaN", "a", " a", "a ", " ", "\ta", "  1", "#x", "-0", "1.50", "2001-02-03", "é", "C:\\x"]
PIECES = ["a", "b", ",", ";", " ", "\\", "^", "'", "é", "\x01", "\xa0"]


def cell(rng: random.Random, quote: str, escape: str) -> str:
    """A value of CSV: without quotes, with well-formed ones, or rarely with any."""
    chance = rng.random()
    if chance < 0.6:
        return rng.choice(PLAIN)
    if chance < 0.95:
        text = "".join(rng.choices([*PIECES, quote], k=rng.randint(0, 4)))
        escaped = "".join(
            escape + one if one == quote or (one == escape and rng.random() < 0.8) else one for one in text
        )
        return f"{quote}{escaped}{quote}"
    return "".join(rng.choices([*PIECES[:1], quote, escape, "\0"], k=2))


def values(path: Path, dialect: CsvDialect, names: tuple[str, ...] = ("a", "b")) -> list[tuple[str | None, ...]]:
    batches = read_values(str(path), dialect, Drift(declared=names))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def put(folder: Path, text: str) -> Path:
    (folder / "a.csv").write_bytes(text.encode())
    return folder / "a.csv"


@pytest.mark.spark
@pytest.mark.parametrize("multiline", ["false", "true"])
@pytest.mark.parametrize(("separator", "quote", "escape"), [(",", '"', "\\"), (";", '"', '"'), ("\t", "'", "^")])
@pytest.mark.parametrize("ddl", ["k string, v double", "k string"])
def test_each_file_that_is_not_refused_has_the_values_of_spark(
    spark: SparkSession, tmp_path: Path, separator: str, quote: str, escape: str, multiline: str, ddl: str
) -> None:
    seed = random.randrange(10**9)
    rng, columns = random.Random(seed), len(ddl.split(", "))
    options = {"sep": separator, "quote": quote, "escape": escape, "multiLine": multiline}
    kept = 0
    for number in range(150):
        path, end = tmp_path / f"{number}.csv", rng.choice(["\n", "\n", "\r\n"])
        records = [
            separator.join(cell(rng, quote, escape) for _ in range(columns)) for _ in range(rng.choice([1, 2, 4]))
        ]
        path.write_bytes((end.join(records) + rng.choice(["", end])).encode())
        try:
            values(path, CsvDialect.of(options))
            kept += 1
        except InvalidJobError:
            path.unlink()
    assert kept > 75, "most files are refused, so this test shows little"
    settings = {**options, "columnPruning": "false"}
    expected = spark.read.format("csv").schema(ddl).options(**settings).load(str(tmp_path)).collect()
    source = Source.csv(tmp_path, schema=ddl, options=options, schema_drift={"wrong-type": "nulls"})
    found = FileSource(spark, source, where="here").batch().collect()
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), f"{seed=}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C:\\new\\,x\n", [("C:\\new\\", "x")]),
        ('"a\\"b",1\n2,"\\\\"\n\\n,"c"', [('a"b', "1"), ("2", "\\"), ("\\n", "c")]),
        ('a,"C:\\x"\n', [("a", "C:\\x")]),
        ("a,b\rc,d\r", [("a", "b"), ("c", "d")]),
        ("a,b\n \t\nc,d", [("a", "b"), ("c", "d")]),
    ],
)
def test_an_escape_is_one_only_within_quotes_and_blank_lines_are_none(
    tmp_path: Path, text: str, expected: list[tuple[str, str]]
) -> None:
    assert values(put(tmp_path, text), CsvDialect()) == expected


@pytest.mark.parametrize("record", ['a,"b', 'a,b"c"', '"a ""b""",c', '"a"b,c', '"a\\"b\\c",d', "a,b\0"])
def test_other_quotes_are_refused_with_their_line(tmp_path: Path, record: str) -> None:
    path = put(tmp_path, f'a,b\n\n"c",d\n{record}\n"e",f\n')
    with pytest.raises(InvalidJobError) as caught:
        values(path, CsvDialect())
    assert str(caught.value) == (
        "a source file has quotes or escapes of which only Spark's reader can make values, and with schema-drift, "
        "tasks read it; nothing was committed. Put quotes around whole values only, and in a value before each quote "
        "the character of the option `escape`, which is \\ by default; or remove schema-drift. Where quotes in a value "
        f"are doubled, set `escape` to the quote. file={path}, line=4, record={record}"
    )


def test_a_quote_that_spans_blocks_is_read_as_one_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode.connectors.files.csv_values._BLOCK_BYTES", 3)
    path = put(tmp_path, 'a,"b\nc\n\n""d"\ne,f\n')
    assert values(path, CsvDialect(escape='"', is_multiline=True)) == [("a", 'b\nc\n\n"d'), ("e", "f")]


def test_a_file_of_a_compression_that_arrow_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="compressed in a form that only Spark's reader knows"):
        values(tmp_path / "a.csv.snappy", CsvDialect())


@pytest.mark.spark
@pytest.mark.parametrize(("option", "value"), [("sep", "\\t"), ("sep", "::"), ("quote", ""), ("escape", "é")])
def test_an_option_of_several_characters_is_refused(
    spark: SparkSession, tmp_path: Path, option: str, value: str
) -> None:
    source = Source.csv(tmp_path, schema="k string", options={option: value}, schema_drift={})
    with pytest.raises(InvalidJobError, match=f"one character of ASCII.* option={option}"):
        FileSource(spark, source, where="here")
