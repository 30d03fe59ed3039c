"""Partitions: names that go there and back, rows in their folders, and memory that stays within its bounds."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.output_paths import OutputFile
from mixedmode.checkpoint.types import Epoch
from mixedmode.checkpoint.uploads import Uploads
from mixedmode.config import load_job
from mixedmode.config.partitions import Partition, parse_partition
from mixedmode.connectors.files.sink import FileSink
from mixedmode.driver.planning import plan_job
from mixedmode.errors import InvalidJobError
from mixedmode.sinks import SinkTask
from mixedmode.sinks.files import OPEN_FILES_MAX, FileFormat, FileLayout, OutputWriter
from mixedmode.sinks.partitions import NULL_FOLDER, FolderRows, folder_name, folder_value
from tests.random_cases import random_cases
from tests.staging import stage

TEXTS = st.text(min_size=1, max_size=20)
AWKWARD = [NULL_FOLDER, "%5F", "%", "%25", "a=b", "a/b", "..", ".", " ", "\x00", "\n", "\x7f", "ü", "~", "[", "^"]


@given(name=TEXTS, value=TEXTS | st.none() | st.sampled_from(AWKWARD))
@example(name="a=b/c", value=NULL_FOLDER)
def test_a_folders_name_says_the_name_and_the_value(name: str, value: str | None) -> None:
    folder = folder_name(name, value)
    assert folder_value(folder) == (name, value), "so no two values have one folder"
    assert "/" not in folder
    path = output_paths.final_path(Epoch(3), 2, "parquet", folder=f"{folder}/", part=0)
    assert output_paths.parse_output_path(path) == OutputFile(f"{folder}/", Epoch(3), Epoch(3), 2, 0, "parquet")


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("DE", "c=DE"),
        (None, "c=__HIVE_DEFAULT_PARTITION__"),
        ("a b/c:d", "c=a b%2Fc%3Ad"),
        ("100%", "c=100%25"),
        ("é€", "c=é€"),
        ("{a}^[b]\\\"'#*?=", "c=%7Ba}%5E%5Bb%5D%5C%22%27%23%2A%3F%3D"),
    ],
)
def test_names_are_those_that_hive_and_spark_give(value: str | None, folder: str) -> None:
    assert folder_name("c", value) == folder


def test_the_empty_text_has_no_folder() -> None:
    with pytest.raises(InvalidJobError) as caught:
        folder_name("country", "")
    assert str(caught.value) == (
        "a row has an empty text in a column that the output is partitioned by, and folders have no name for it: "
        "readers would take it for NULL. Make it NULL or another text in a sql step, such as nullif(country, ''), or "
        "do not partition by it. Nothing was committed. column=country"
    )


def test_a_text_that_is_too_long_for_a_folder_is_told() -> None:
    assert folder_name("c", "x" * 253)
    with pytest.raises(InvalidJobError, match="too long for the name of a folder"):
        folder_name("c", "ü" * 127)


DAYS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)) | st.none()  # noqa: DTZ001


@settings(max_examples=random_cases(30))
@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", None, "b/c"]), DAYS, st.integers(0, 99)), max_size=40),
    every=st.sampled_from(["year", "month", "day", "hour"]),
    buffer_bytes=st.sampled_from([1, 400, 1 << 30]),
)
def test_each_row_is_given_once_in_its_folder_and_in_order(
    rows: list[tuple[str | None, datetime | None, int]], every: Any, buffer_bytes: int
) -> None:
    expected: dict[str, list[int]] = {}
    digits = {"year": 4, "month": 7, "day": 10, "hour": 13}[every]
    for number, (name, at, _) in enumerate(rows):
        text = None if at is None else at.isoformat()[:digits].replace("T", "-")
        folder = f"{folder_name('k', name)}/{folder_name(f'at_{every}', text)}/"
        expected.setdefault(folder, []).append(number)
    columns = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        pa.array(range(len(rows)), pa.int64()),
    ]
    table = pa.table(columns, names=["k", "at", "n"])
    waiting = FolderRows((Partition("k"), Partition("at", every)), buffer_bytes=buffer_bytes)
    found: dict[str, list[int]] = {}
    pieces = [piece for start in range(0, len(rows), 7) for piece in waiting.add(table.slice(start, 7))]
    for folder, piece in [*pieces, *waiting.rest()]:
        assert piece.column_names == ["at", "n"], "the column that the folder says is left out, the time is not"
        found.setdefault(folder, []).extend(piece.column("n").to_pylist())
    assert found == expected


@pytest.mark.parametrize(
    ("values", "data_type", "names"),
    [
        ([True, False, None], pa.bool_(), ["true", "false", NULL_FOLDER]),
        ([-1, 2**62], pa.int64(), ["-1", str(2**62)]),
        ([date(1, 2, 3), date(2024, 2, 29)], pa.date32(), ["0001-02-03", "2024-02-29"]),
    ],
    ids=str,
)
def test_values_of_other_types_are_written_as_spark_writes_them(
    values: list[Any], data_type: pa.DataType, names: list[str]
) -> None:
    waiting = FolderRows((Partition("c"),))
    table = pa.table({"c": pa.array(values, data_type), "n": range(len(values))})
    assert not list(waiting.add(table))
    assert {folder: piece.column("n").to_pylist() for folder, piece in waiting.rest()} == {
        f"c={name}/": [number] for number, name in enumerate(names)
    }


def test_time_is_cut_by_the_clock_of_utc() -> None:
    waiting = FolderRows((Partition("at", "day"),))
    at = pa.array([datetime(2024, 5, 1, 23, tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"))
    assert not list(waiting.add(pa.table({"at": at})))
    assert [folder for folder, _ in waiting.rest()] == ["at_day=2024-05-01/"]


def test_many_partitions_are_written_with_few_open_files_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table overflows what may wait, so each folder is written at once, and files are closed to open others."""
    monkeypatch.setattr("mixedmode.sinks.partitions.BUFFER_BYTES", 1)
    monkeypatch.setattr(FolderRows.__init__, "__kwdefaults__", {"buffer_bytes": 1})
    (tmp_path / "local").mkdir()
    layout = FileLayout(partitions=(Partition("k"),))
    task = SinkTask(str(tmp_path / "out"), "parquet", layout)
    keys = [f"k{n}" for n in range(OPEN_FILES_MAX + 20)]
    with Uploads() as uploads:
        writer = OutputWriter(task, Epoch(0), 0, tmp_path / "local", uploads, "a")
        for round_number in range(3):
            writer.write(pa.table({"k": keys, "n": [round_number] * len(keys)}))
            assert len(writer._open) <= OPEN_FILES_MAX
        files = writer.finish()
    assert len({file.final_path for file in files}) == len({file.staged_path for file in files}) == len(files)
    found: dict[str, list[int]] = {}
    for file in sorted(files, key=lambda file: file.final_path):
        rows = pq.ParquetFile(tmp_path / "out" / file.staged_path).read().column("n").to_pylist()
        found.setdefault(file.final_path.split("/")[0], []).extend(rows)
        assert file.rows == len(rows)
    assert found == {f"k={key}": [0, 1, 2] for key in keys}


# --- files that are large enough are followed by others --------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "json", "csv"])
def test_files_are_followed_by_others_once_they_are_large_enough(tmp_path: Path, file_format: FileFormat) -> None:
    task = SinkTask(str(tmp_path / "out"), file_format, FileLayout(max_file_bytes=20_000))
    texts = [f"{n * 7919 % 100_003:05}" * 3 for n in range(20_000)]
    tables = [pa.table({"t": texts[start : start + 10_000]}) for start in range(0, 20_000, 10_000)]
    files = stage(task, tmp_path / "local", "a", *tables, epoch=7, subtask=1)
    assert [file.final_path for file in files] == [
        output_paths.final_path(Epoch(7), 1, file_format, part=part) for part in range(len(files))
    ]
    assert all(file.bytes >= 20_000 for file in files[:-1])
    assert all(file.bytes <= 40_000 for file in files)
    assert len(files) > 2
    assert sum(file.rows for file in files) == 20_000


def test_without_settings_a_file_has_the_name_that_it_always_had(tmp_path: Path) -> None:
    task = SinkTask(str(tmp_path / "out"), "json")
    (file,) = stage(task, tmp_path / "local", "a", pa.table({"n": [1]}), epoch=7, subtask=1)
    assert (file.staged_path, file.final_path) == (
        "_staging/0000000007-0000000001-a.json.staged",
        "part-0000000007-0000000001.json",
    )


# --- what an output can be partitioned by ----------------------------------------------------------------------------

FIELDS = [pa.field("k", pa.string()), pa.field("at", pa.timestamp("us", "UTC")), pa.field("x", pa.float64())]


@pytest.mark.parametrize(
    ("by", "keys", "reason"),
    [
        ("y", [], "y: the output has no such column. Columns here: k, at, x. column=y"),
        (
            "x",
            [],
            (
                "x: values of this type are no names of folders. Partition by text, whole numbers, booleans or dates, "
                "or by the day(...) or hour(...) of a timestamp. column=x, type=double"
            ),
        ),
        ("day(k)", [], "day(k): day() is of a timestamp, or, but for hours, of a date. column=k, type=string"),
        (
            "day(at)",
            ["k"],
            (
                "day(at): rows of a key would be in several folders, and who reads one of them would not see that a "
                "row in it is no longer true. Partition by key columns (k). column=at"
            ),
        ),
    ],
)
def test_what_cannot_be_a_partition_is_refused(tmp_path: Path, by: str, keys: list[str], reason: str) -> None:
    layout = FileLayout(partitions=(parse_partition(by),))
    sink = FileSink("job", str(tmp_path / "out"), "parquet", replaces=False, layout=layout)
    with pytest.raises(InvalidJobError) as caught:
        sink.prepare(FIELDS, keys, is_fresh=True)
    assert str(caught.value) == f"the output cannot be partitioned by {reason}"


def test_the_folders_of_an_output_stay_what_they_were(tmp_path: Path) -> None:
    def prepare(*by: str) -> None:
        layout = FileLayout(partitions=tuple(map(parse_partition, by)))
        FileSink("job", str(tmp_path / "out"), "parquet", replaces=False, layout=layout).prepare(
            FIELDS, [], is_fresh=True
        )

    prepare("k", "day(at)")
    prepare("k", "day(at)")
    with pytest.raises(InvalidJobError, match=r"partition_by was \(k, day\(at\)\) and is \(k\)\. Give this output"):
        prepare("k")


@pytest.mark.parametrize("text", ["country", "day(at)", "`day(at)`", "hour(`a(b`)", "`a``b`"])
def test_what_a_partition_says_is_read_back(text: str) -> None:
    assert str(parse_partition(text)) == text


@pytest.mark.parametrize("text", ["", "week(at)", "day()", "a)b", "`"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError, match="this is neither a column nor the year, month, day or hour of one"):
        parse_partition(text)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_validation_tells_of_a_partition_that_cannot_be(tmp_path: Path) -> None:
    """A run would find it when it prepares its outputs."""
    (tmp_path / "in").mkdir()
    (tmp_path / "job.yaml").write_text(
        "name: job\n"
        "sources: {t: {format: json, path: in, schema: 'k string, v long', bounded: true}}\n"
        "steps:\n"
        "  - {key-by: k, aggregate: {n: count(*)}}\n"
        "sink: {format: json, path: out, partition-by: n}\n"
    )
    loaded = load_job(tmp_path / "job.yaml")
    with pytest.raises(InvalidJobError) as caught:
        plan_job(loaded.spec, loaded.where)
    assert str(caught.value).startswith(f"{tmp_path / 'job.yaml'}:5: sink: the output cannot be partitioned by n: ")
