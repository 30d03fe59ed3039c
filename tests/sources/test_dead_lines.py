"""Lines of JSON and CSV that are no records: each is in the dead letters once, and all other lines are rows."""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

from mixedmode.connectors.files.source import FileSource
from mixedmode.driver import epochs
from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from tests.harness import SPARK, output_changes, output_rows, run, write_text

pytestmark = pytest.mark.spark

DDL = "k string, v int"
Line = tuple[str, tuple[str, int] | None]  # a line, and the record in it
#: {format: lines that are neither a record nor wrong}
NOTHING = {"json": ["", " \t", "[]"], "csv": ["", " \t", "\x1f"]}
#: {format: lines that are no records}
WRONG = {
    "json": [
        '{"k":"a"}{"k":"b"}',
        '{"k":"a","v":"one"}',
        '{"k":"a","v":1',
        "x",
        '[{"k":"a"},null]',
        '{"v":99999999999}',
    ],
    "csv": ["a", "a,1,2", "a,one", ",,", "a,99999999999", '"a,1', 'a "b",,1'],
}


def record(kind: str, key: str, value: int) -> Line:
    text = json.dumps({"k": key, "v": value}) if kind == "json" else f'"{key}",{value}'
    return text, (key, value)


def drawn(kind: str, choice: random.Random, lines: int) -> list[Line]:
    """Lines of all sorts, in any order."""
    odd: list[Line] = [(text, None) for text in NOTHING[kind] + WRONG[kind]]
    good = [record(kind, choice.choice(["a", "b, c", "ü"]), choice.randrange(1000)) for _ in range(lines)]
    mixed = good + choice.choices(odd, k=lines // 4)
    choice.shuffle(mixed)
    return mixed


def dead(kind: str, lines: Sequence[Line]) -> list[tuple[int, str]]:
    """(number, text) of the wrong lines."""
    return [(number, text) for number, (text, _) in enumerate(lines, 1) if text in WRONG[kind]]


def source_of(kind: str, folder: Path, **settings: Any) -> Any:
    make: dict[str, Any] = {"json": Source.json, "csv": Source.csv}
    return make[kind](folder, **{"schema": DDL, **settings})


def with_dead_letters(kind: str, base: Path, **settings: Any) -> Any:
    return source_of(kind, base / "in", undecodable="dead-letter", dead_letter=Sink.json(base / "dead"), **settings)


def put(folder: Path, name: str, lines: Sequence[Line], *, header: bool = False, end: str = "\n") -> None:
    text = end.join([*(["k,v"] if header else []), *(text for text, _ in lines)])
    if name.endswith(".gz"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(text.encode()))
    else:
        write_text(folder, name, text)


@pytest.mark.parametrize(("kind", "header"), [("json", False), ("csv", False), ("csv", True)])
def test_each_line_is_a_row_or_a_dead_letter_with_its_number_however_files_are_cut(
    spark: SparkSession, tmp_path: Path, kind: str, header: bool
) -> None:
    """Of several files, of which some are cut into blocks of 300 bytes, in a folder whose name has a column."""
    choice = random.Random(f"{kind}{header}")
    names = {"a b[1]": "\n", "day=1/{c}": "\r\n", "d.gz": "\n", "whole": "\n"}
    files = {name: drawn(kind, choice, {"d.gz": 20, "whole": 20}.get(name, 40)) for name in names}
    files["whole"] = [line for line in files["whole"] if line[1] is not None]
    for name, lines in files.items():
        put(tmp_path / "in" / "day=1", Path(name).name, lines, header=header, end=names[name])
    settings: dict[str, Any] = {"schema": f"day int, {DDL}", **({"options": {"header": True}} if header else {})}
    spark.conf.set("spark.sql.files.maxPartitionBytes", "300")
    try:
        source = FileSource(spark, with_dead_letters(kind, tmp_path, **settings), where="here")
        rows = sorted((row.k, row.v) for row in source.batch().select("k", "v").collect())
        counted = source.batch().where("day = 1").count()
        wrong = source.undecodable_lines(source.batch_files())
        assert wrong is not None
        found = sorted((unquote(row.file).rpartition("/")[2], row.line, row.record) for row in wrong.collect())
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert rows == sorted(row for lines in files.values() for _, row in lines if row is not None)
    assert counted == len(rows)
    shift = 1 if header else 0
    assert found == sorted(
        (Path(name).name, number + shift, text) for name, lines in files.items() for number, text in dead(kind, lines)
    )


@pytest.mark.parametrize("count", [800, pytest.param(20_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_of_any_text_each_line_is_a_row_or_a_dead_letter(
    spark: SparkSession, tmp_path: Path, kind: str, count: int
) -> None:
    """Without an oracle for what is wrong: nothing is lost, and nothing is in both."""
    choice = random.Random(7)
    pieces = ['"', "'", ",", "\\", "{", "}", "[", "]", ":", "k", "1", "é", "\x00", " ", "\t", "#", '"k":"x"', "\ufeff"]
    lines = ["".join(choice.choices(pieces, k=choice.randrange(1, 12))) for _ in range(count)]
    lines = ["x", "{}", *(line for line in lines if line.strip(" \t\x00"))]
    if kind == "json":
        lines = [line for line in lines if not line.lstrip(" \t").startswith("[")]  # an array may have no records
    write_text(tmp_path / "in", "a", "\n".join(lines))
    settings = {"options": {"comment": "#"}} if kind == "csv" else {}
    source = FileSource(spark, with_dead_letters(kind, tmp_path, **settings), where="here")
    rows = source.batch().count()
    wrong = source.undecodable_lines(source.batch_files())
    assert wrong is not None
    found = sorted((row.line, row.record) for row in wrong.collect())
    assert [(number, lines[number - 1]) for number, _ in found] == found
    comments = sum(line.startswith("#") for line in lines) if kind == "csv" else 0
    assert rows + len(found) + comments == len(lines)
    assert rows > 0


@pytest.mark.parametrize("kind", ["json", "csv"])
# mixed mode repeats a backlog and goes live; batch repeats it, too, and streaming has the same epochs in smaller pieces
@pytest.mark.parametrize(
    "mode", ["mixed", *(pytest.param(one, marks=pytest.mark.soak) for one in ("batch", "streaming"))]
)
def test_in_every_mode_wrong_lines_are_dead_letters_once_also_when_an_epoch_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, kind: str
) -> None:
    choice = random.Random(mode)
    files = {f"{number}.{kind}": drawn(kind, choice, 40) for number in range(3)}
    for name in list(files)[:2]:
        put(tmp_path / "in", name, files[name])
    source = with_dead_letters(kind, tmp_path, max_files_per_epoch=1)
    checkpoints = None if mode == "batch" else tmp_path / "checkpoints"
    job = Job("dead", sources={"t": source}, mode=mode, parallelism=2, checkpoint_dir=checkpoints, spark=SPARK)
    job = job.sql("SELECT k, v FROM t").key_by("k").aggregate(n="count(*)", s="sum(v)")
    job = job.write(Sink.parquet(tmp_path / "out"))
    if mode == "batch":
        put(tmp_path / "in", "2." + kind, files["2." + kind])
        run(job, spark)
    else:
        with monkeypatch.context() as broken:
            broken.setattr(epochs, "manifest_of", _fails)
            with pytest.raises(RetryableError, match="of this test"):
                run(job, spark)
        run(job, spark, feed=[lambda: put(tmp_path / "in", "2." + kind, files["2." + kind])])
    rows = [row for lines in files.values() for _, row in lines if row is not None]
    sums = {key: [value for other, value in rows if other == key] for key, _ in rows}
    expected = [{"k": key, "n": len(values), "s": sum(values)} for key, values in sums.items()]
    assert sorted(output_rows(tmp_path / "out"), key=repr) == sorted(expected, key=repr)
    letters = [json.loads(line) for part in (tmp_path / "dead").glob("part-*") for line in lines_of(part)]
    assert sorted((one["file"].rpartition("/")[2], one["line"], one["record"]) for one in letters) == sorted(
        (name, number, text) for name, lines in files.items() for number, text in dead(kind, lines)
    )
    assert {*letters[0]} == {"file", "line", "record", "reason", "_epoch"}
    assert {one["reason"] for one in letters} == {f"it is not a line of {kind.upper()} that fits the schema"}


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines()


def _fails(*_given: object) -> None:
    msg = "a failure of this test"
    raise RetryableError(msg)


@pytest.mark.parametrize(
    ("kind", "text", "options", "place"),
    [
        ("csv", "a,1\n\nb,2,3\nc", {}, "line=3, record=b,2,3"),
        (
            "csv",
            "k,v\n#\n\na,1\nb,x\n",
            {"header": True, "comment": "#"},
            "line=5, column=v, type_in_schema=int, record=b,x",
        ),
        ("csv", '"a\nb",1\nc,1\n"d\n",x\ne,y', {"multiLine": True}, 'record_number=3, record="d ",x'),
        (
            "csv",
            "ü,1|ö,x",
            {"encoding": "ISO-8859-1", "lineSep": "|"},
            "line=2, column=v, type_in_schema=int, record=ö,x",
        ),
        ("json", '[{"k":"a"},\n{"k":"b","v":"x"}]', {"multiLine": True}, 'record_number=2, record={"k":"b","v":"x"}'),
        ("json", '[{"k":"a"},\n{"k":"b"', {"multiLine": True}, 'record=[{"k":"a"}, {"k":"b"'),
    ],
)
@pytest.mark.parametrize("mode", ["batch", pytest.param("mixed", marks=pytest.mark.soak)])
def test_without_dead_letters_the_first_wrong_record_is_named_by_its_number(
    spark: SparkSession, tmp_path: Path, mode: Any, kind: str, text: str, options: dict[str, Any], place: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a b.{kind}").write_bytes(text.encode(options.get("encoding", "utf-8")))
    source = source_of(kind, tmp_path / "in", options=options)
    checkpoints = None if mode == "batch" else tmp_path / "checkpoints"
    job = Job("wrong", sources={"t": source}, mode=mode, checkpoint_dir=checkpoints, spark=SPARK)
    with pytest.raises(InvalidJobError) as error:
        run(job.sql("SELECT k, v FROM t").write(Sink.parquet(tmp_path / "out")), spark)
    assert str(error.value).endswith(f"/in/a%20b.{kind}, {place}")
    assert "set `undecodable: dead-letter` on the source" in str(error.value)
    assert not output_changes(tmp_path / "out")


@pytest.mark.parametrize(
    ("kind", "record", "column"),
    [
        *(
            ("csv", f"{n},a,2001-02-03,{m}", column)
            for n, m, column in [("x", "1", "n"), ("1", "x", "m"), ("x", "x", "n")]
        ),
        ("csv", "1,a,2001-02-03", None),
        *(pytest.param("csv", text, None, marks=pytest.mark.soak) for text in ["1,a,2001-02-03,2,3", "x"]),
        *(
            ("json", f'{{"n":{n},"k":"a","d":"{d}"}}', column)
            for n, d, column in [("[]", "2001-02-03", "n"), ("1", "today", "d")]
        ),
        ("json", '{"n":1', None),
        *(pytest.param("json", text, None, marks=pytest.mark.soak) for text in ['{"n":1}{"n":2}', "[1]", '{"n":1}}']),
    ],
)
def test_a_message_names_the_first_column_whose_value_does_not_fit(
    spark: SparkSession, tmp_path: Path, kind: str, record: str, column: str | None
) -> None:
    """None: the line itself is wrong, so there is no such column."""
    write_text(tmp_path, f"a.{kind}", f"{record}\n")
    schema = "n int, k string, d date, m int"
    source = FileSource(spark, source_of(kind, tmp_path, schema=schema), where="here")
    message = source.wrong_record(f"file://{tmp_path}/a.{kind}")
    assert message is not None
    told = "" if column is None else f"column={column}, type_in_schema={'date' if column == 'd' else 'int'}, "
    assert message.endswith(f"a.{kind}, line=1, {told}record={record}")
