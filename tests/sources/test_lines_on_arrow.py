"""A line that tasks parse has the values that Spark's reader returns in FAILFAST mode; others are doubtful."""

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from mixedmode.connectors.files import csv_arrow, json_arrow
from mixedmode.connectors.files.csv_arrow import plain_csv
from mixedmode.connectors.files.file_blocks import FilePart, blocks_of_lines
from mixedmode.connectors.files.json_scan import is_plain
from mixedmode.connectors.files.strict_values import EXACT_TYPES, DoubtfulTextError
from mixedmode.plan.job_plan import LinesFormat
from tests.random_cases import random_cases

LINES = random_cases(2_000)
TYPES = {
    "b": "boolean",
    "t": "tinyint",
    "h": "smallint",
    "i": "int",
    "l": "bigint",
    "d": "double",
    "s": "string",
    "dt": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
}
FIELDS = [pa.field(name, EXACT_TYPES[kind]) for name, kind in TYPES.items()]
#: days and microseconds, because Python's dates end with the year 9999
WHOLE = {"dt": pa.int32(), "ts": pa.int64(), "tn": pa.int64()}
NUMBERS = (
    "0 -0 1 -1 1.0 1e3 1E-3 -0.0 0.1 007 127 128 -129 255 32768 2147483647 2147483648 9223372036854775807 "
    "9223372036854775808 -9223372036854775809 123456789012345678901234567890 1e308 1e309 -1e400 5e-324 1e-400 "
    "2.2250738585072012e-308 1.7976931348623157e308 9007199254740993 00 01 +1 1. .5 1e 1e+ 0x1 NaN nan Infinity "
    "-Infinity Inf INF 1f 1d 1_0 true True null " + "1" * 999 + " " + "1" * 1001
).split()
TEXTS = [
    *(
        '""',
        '"a"',
        '"\\u0000"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\udc00"',
        '"é😀"',
        '"\\""',
        '"\\\\"',
        '"\\/\\b\\n"',
    ),
    *(
        '"\\x"',
        '"\\u12"',
        '"a\tb"',
        '"\x7f"',
        '"\x01"',
        '"\u2028\ufeff"',
        '"NaN}"',
        "'a'",
        '"}{"',
        '"a',
        "[1, 2]",
        '{"a":1}',
    ),
    '"' + "x" * 2000 + '"',
]
DATES = (
    "2001-02-03 2001-2-3 0001-01-01 0000-01-01 9999-12-31 10000-01-01 1900-02-29 1582-10-10 2001-02 2001 20010203 epoch"
)
TIMES = (
    " 10:11:12|T10:11:12| 10:11|T10| 10:11:12.1| 10:11:12.123456| 10:11:12.1234567| 24:00:00| 23:59:60| 1:2:3|"
    " 10:11:12.|t10:11:12| 10:11:12,1|T10:11:12.12|"
)
ZONES = ",,,,Z,Z,z,+00:00,+00:00,+0000,+00,+01:00,-08:00,+19:00, UTC, Europe/Berlin,-00:00,GMT+1"
BYTES = b"{}[],:\"\\0123456789eE+-.tfnul \x00\x01\x1f\x7f\x80\xc3\xff/*'NaIy"


def value(rng: random.Random, kind: str) -> str:
    """A value as JSON, or nearly so: of its type, mostly in a hostile form."""
    if rng.random() < 0.15:
        return rng.choice([*NUMBERS, *TEXTS])
    if kind in ("date", "timestamp", "timestamp_ntz"):
        date = rng.choice(DATES.split()) if rng.random() < 0.3 else f"{rng.randint(1, 9999):04}-0{rng.randint(1, 9)}-10"
        return f'"{date}{rng.choice(TIMES.split("|"))}{rng.choice(ZONES.split(","))}"'
    if kind == "double" and rng.random() < 0.6:
        exact = f"{rng.randint(0, 10**19)}.{rng.randint(0, 10**20)}e{rng.randint(-330, 300)}"
        return rng.choice(
            [exact, repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300)), str(rng.randint(0, 10**40))]
        )
    return rng.choice({"string": TEXTS, "boolean": ["true", "false"]}.get(kind, NUMBERS))


def usual(rng: random.Random, kind: str) -> str:
    found = {"boolean": "true", "string": '"x"', "double": repr(rng.uniform(-9, 9))}
    return found.get(
        kind, '"2001-02-03"' if kind in ("date", "timestamp", "timestamp_ntz") else str(rng.randint(-9, 9))
    )


def changed(rng: random.Random, line: str) -> bytes:
    """Return the bytes of a line, sometimes with one of them added, removed or replaced."""
    text = line.encode()
    if rng.random() < 0.15:
        place, byte = rng.randint(0, len(text)), bytes([rng.choice(BYTES)])
        text = text[:place] + rng.choice([byte, b""]) + text[place + rng.randint(0, 1) :]
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


def json_line(rng: random.Random) -> bytes:
    names = rng.sample(list(TYPES), rng.choice([1, 1, 2, 10]))
    pairs = [(json.dumps(name), (usual if n else value)(rng, TYPES[name])) for n, name in enumerate(names)]
    if rng.random() < 0.2:
        pairs.insert(0, (rng.choice(['"x"', '"L"', '"\\u006c"', '"s"']), rng.choice([*NUMBERS, *TEXTS])))
    blank = rng.choice(["", "", "", " ", "\t"])
    line = f"{blank}{{{f',{blank}'.join(f'{name}{blank}:{text}' for name, text in pairs)}}}{blank}"
    tail = rng.choice(["x", "}", '{"l":1}', ",", " {}", "//c"]) if rng.random() < 0.05 else ""
    whole = ["", " ", "null", "[]", '[{"l":1}]', "{}", "/**/{}", "\ufeff{}", '{"x":' + "[" * 1200 + "]" * 1200 + "}"]
    return changed(rng, rng.choice([*whole, '{"' + "n" * 50_001 + '":1}']) if rng.random() < 0.02 else line + tail)


def csv_line(rng: random.Random) -> bytes:
    odd = rng.choice(list(TYPES))
    cells = []
    for name, kind in TYPES.items():
        cell = (value if name == odd else usual)(rng, kind)
        cell = "" if cell == "null" else cell[1:-1] if cell.startswith('"') and rng.random() < 0.8 else cell
        cells.append(f'"{cell}"' if rng.random() < 0.1 else cell)
    if rng.random() < 0.05:
        cells[cells.index(rng.choice(cells))] = rng.choice([" a", "a ", '"', '"a""b"', '"a,b"', ' "a"', "TRUE", "\t"])
    whole = ["", " ", " \x01", "\ufeff1", ",,,,,,,,,", ",".join([*cells, ""]), ",".join(cells[1:])]
    return changed(rng, rng.choice(whole) if rng.random() < 0.05 else ",".join(cells))


def of_json(block: bytes) -> pa.RecordBatch:
    return json_arrow.read_block(block, FIELDS)


def of_csv(block: bytes) -> pa.RecordBatch:
    return csv_arrow.read_block(block, FIELDS, LinesFormat(","), is_first=False)


def exact(number: Any) -> Any:
    return struct.pack("d", number) if isinstance(number, float) else number


@pytest.mark.spark
@pytest.mark.parametrize(("form", "line", "read"), [("json", json_line, of_json), ("csv", csv_line, of_csv)])
def test_every_line_that_is_not_doubtful_has_the_values_of_spark(
    spark: SparkSession,
    tmp_path: Path,
    form: str,
    line: Callable[[random.Random], bytes],
    read: Callable[[bytes], pa.RecordBatch],
) -> None:
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    taken, expected = [], []
    for text in (line(rng) for _ in range(LINES)):
        try:
            batch = read(text + b"\n")
        except DoubtfulTextError:
            continue
        assert form == "csv" or is_plain(text + b"\n"), text
        taken.append(text + b"\n")
        whole = [column.cast(WHOLE.get(name, column.type)) for name, column in zip(TYPES, batch.columns, strict=True)]
        expected += [[exact(cell.as_py()) for cell in row] for row in zip(*whole, strict=True)]
    assert len(taken) > LINES / 10, "most lines are doubtful, so this test shows little"
    (tmp_path / "a").write_bytes(b"".join(taken))
    ddl = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_c", "columnPruning": "false"}
    rows = spark.read.format(form).schema(f"{ddl}, _c string").options(**options).load(str(tmp_path))
    times = {"dt": F.unix_date("dt"), "ts": F.unix_micros("ts"), "tn": F.unix_micros(F.col("tn").cast("timestamp"))}
    found = rows.select(*(times.get(name, F.col(name)).alias(name) for name in TYPES), "_c").collect()
    assert len(found) == len(expected), f"seed={seed}"
    for row, own in zip(found, expected, strict=True):
        assert row["_c"] is None, f"Spark refuses a line. {seed=}"
        assert [exact(cell) for cell in row[:-1]] == own, f"{seed=}"


@pytest.mark.parametrize(
    "text",
    [
        *(
            '{"l":1}{"l":2}',
            '{"l":\n1}',
            '{"l":1.0}',
            '{"l":1,"l":2}',
            '{"d":NaN}',
            '{"d":-Inf}',
            '{"l":NaN}',
            '{"s":Infinity}',
            '{"x":Infinity}',
            '{"x":[Inf]}',
            '{"d":-0}',
            "[{}]",
        ),
        *(
            '{"ts":"2001-02-03Z"}',
            '{"ts":"2001-02-03 10:11"}',
            '{"s":1}',
            "{'s':'a'}",
            '{"l":"1"}',
            '{"dt":"2001-2-3"}',
        ),
        # a time of the day on which Spark reads it, and a number of seconds
        *('{"ts":"12:30"}', '{"tn":"12:30:00"}', '{"ts":"T12:30"}', '{"ts":1700000000}', '{"ts":1700000000000000}'),
        *('{"ts":"2001-02-03 10:11:12Z"}\n{"ts":"2001-02-03"}', '\ufeff{"l":1}', '{"l":1}\r{"l":2}'),
    ],
)
def test_forms_of_json_that_are_left_to_spark(text: str) -> None:
    with pytest.raises(DoubtfulTextError):
        of_json(text.encode())


def test_blank_lines_and_line_ends_of_windows_are_taken() -> None:
    assert of_json(b' {"l":1}\t\r\n\r\n  \n{"l":2}').column(4).to_pylist() == [1, 2]
    assert of_json(b"\n \n").num_rows == 0
    fields = [pa.field("a", pa.int64()), pa.field("b", pa.string())]
    csv = LinesFormat(";", has_header=True)
    block = b'\r\na;b\r\n1;"x y"\r\n \r\n-2;\r\n'
    found = csv_arrow.read_block(block, fields, csv, is_first=True)
    assert found.to_pylist() == [{"a": 1, "b": "x y"}, {"a": -2, "b": None}]
    assert csv_arrow.read_block(b"a;b\n", fields, csv, is_first=True).num_rows == 0


@pytest.mark.spark
@pytest.mark.parametrize("has_header", [True, False])
def test_every_file_of_csv_that_is_not_doubtful_has_the_lines_of_spark(
    spark: SparkSession, tmp_path: Path, has_header: bool
) -> None:
    """Files of few lines, with any ends of lines and any blanks, in blocks; the first line may be a header."""
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    fields, csv = [pa.field("k", pa.string()), pa.field("v", pa.string())], LinesFormat(",", has_header=has_header)
    expected: dict[str, list[tuple[Any, ...]]] = {}
    for number in range(400):
        usual = rng.choice(["\n", "\r\n", "\r"])
        ends = [
            usual if rng.random() < 0.8 else rng.choice(["\n", "\r\n", "\r", "\n\n", "\n \t\n", ""]) for _ in range(4)
        ]
        text = rng.choice(["", "", "", "\n", " \r\n", "\ufeff"])
        text += "".join(f"{rng.choice(['k', 'a', 'b'])},{n}{end}" for n, end in enumerate(ends[: rng.randint(0, 4)]))
        path = tmp_path / f"{number}.csv"
        path.write_bytes(text.encode())
        blocks = blocks_of_lines(FilePart(str(path), 0, None), rng.choice([1, 5, 1000]))
        try:
            read = [csv_arrow.read_block(block, fields, csv, is_first=not n) for n, block in enumerate(blocks)]
        except DoubtfulTextError:
            path.unlink()
            continue
        expected[path.name] = [tuple(row.values()) for batch in read for row in batch.to_pylist()]
    assert len(expected) > 100, "most files are doubtful, so this test shows little"
    rows = spark.read.schema("k string, v string").csv(str(tmp_path), header=has_header)
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in expected}
    for file, *row in rows.select(F.input_file_name(), "k", "v").collect():
        found[file.rpartition("/")[2]].append(tuple(row))
    for name, lines in expected.items():
        assert sorted(found[name], key=repr) == sorted(lines, key=repr), (seed, (tmp_path / name).read_bytes())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, LinesFormat(",")),
        ({"HEADER": "true", "sep": "|"}, LinesFormat("|", has_header=True)),
        ({"delimiter": "\t", "header": "False"}, LinesFormat("\t")),
        *(
            ({name: text}, None)
            for name, text in [("sep", "::"), ("sep", "\\t"), ("quote", "'"), ("multiLine", "true")]
        ),
    ],
)
def test_the_dialects_of_csv_that_tasks_parse(options: dict[str, str], expected: LinesFormat | None) -> None:
    assert plain_csv(options) == expected
