"""The files between Python and Flink: what numpy lays out is what the programs read, and the newest row counts."""

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from mixedmode_bench.flink_files import CountSum, RegularJoin, WordCount, rows_written, write_records

COUNT_SUM, WORD_COUNT = CountSum(("k", "v")), WordCount(("word",))


def test_a_record_of_count_sum_is_a_key_and_a_value_little_endian() -> None:
    batch = pa.record_batch({"v": [0.5, -1.0], "k": [7, -2]})
    assert COUNT_SUM.records(batch) == struct.pack("<qdqd", 7, 0.5, -2, -1.0)


@given(st.lists(st.text(max_size=12), max_size=20))
def test_a_record_of_word_count_is_a_length_and_the_word(words: list[str]) -> None:
    batch = pa.record_batch({"word": pa.array(words, pa.string())})
    encoded = [word.encode() for word in words]
    assert WORD_COUNT.records(batch) == b"".join(struct.pack("<i", len(word)) + word for word in encoded)


def test_a_file_of_records_is_blocks_with_their_size_and_count(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [1, 2, 3], "v": [0.0, 0.0, 0.0]}), tmp_path / "in" / "part-0.parquet")
    write_records(tmp_path / "in", tmp_path / "out", COUNT_SUM)
    (file,) = (tmp_path / "out").iterdir()
    written = file.read_bytes()
    assert struct.unpack("<ii", written[:8]) == (48, 3)
    assert len(written) == 8 + 48


def test_the_last_row_of_a_key_counts_whatever_came_before(tmp_path: Path) -> None:
    rows = [(1, 1, 0.5), (2, 1, 9.0), (1, 2, 0.75)]
    (tmp_path / "rows-0").write_bytes(b"".join(struct.pack("<qqd", *row) for row in rows))
    (tmp_path / "rows-1").write_bytes(struct.pack("<qqd", 3, 1, 4.0))
    for subtask in "01":
        (tmp_path / f"texts-{subtask}").write_bytes(b"")
    found = rows_written(tmp_path, COUNT_SUM, ["k", "n", "total"]).sort_by("k")
    assert found.to_pydict() == {"k": [1, 2, 3], "n": [2, 1, 1], "total": [0.75, 9.0, 4.0]}


def test_rows_that_never_change_all_count(tmp_path: Path) -> None:
    join = RegularJoin(("k", "seq", "v"))
    batch = pa.record_batch({"seq": [1], "v": [0.5], "k": [7]})
    assert join.records(batch) == struct.pack("<qqd", 7, 1, 0.5)
    pairs = [(1, 2, 7, 0.5, 1.5), (1, 3, 7, 0.5, 2.5)]
    for subtask, pair in enumerate(pairs):
        (tmp_path / f"rows-{subtask}").write_bytes(struct.pack("<qqqdd", *pair))
    names = ["seq", "other", "k", "v", "w"]
    found = rows_written(tmp_path, join, names)
    assert found.to_pylist() == [dict(zip(names, pair, strict=True)) for pair in pairs]


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(1, 9)), max_size=30))
def test_words_are_found_again_in_the_texts(tmp_path_factory: object, changes: list[tuple[str, int]]) -> None:
    texts = b"".join(word.encode() for word, _ in changes)
    numbers = b"".join(struct.pack("<iq", len(word.encode()), count) for word, count in changes)
    folder = tmp_path_factory.mktemp("changes")  # type: ignore[attr-defined]  # pytest names its type in private
    (folder / "rows-0").write_bytes(numbers)
    (folder / "texts-0").write_bytes(texts)
    found = rows_written(folder, WORD_COUNT, ["word", "n"])
    assert dict(zip(*found.to_pydict().values(), strict=True)) == dict(changes)
