"""The content of a file source's log, whichever entries Spark has merged it into."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.source_log import LoggedFile, beginning, ends_of, extended, files_named, log_of, newest_files
from mixedmode.checkpoint.types import SourceLog

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
ENTRIES = st.lists(st.lists(st.tuples(NAMES, st.integers(0, 2**53)), max_size=3), min_size=1, max_size=8)

Entries = list[list[tuple[str, int]]]


def files_of(entries: Entries) -> list[list[LoggedFile]]:
    return [[LoggedFile(name, at, number) for name, at in files] for number, files in enumerate(entries)]


def entry(files: list[LoggedFile]) -> bytes:
    """An entry as Spark writes it."""
    lines = [{"path": file.url, "timestamp": file.timestamp_ms, "batchId": file.number} for file in files]
    return "\n".join(["v1", *(json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines)]).encode()


@given(entries=ENTRIES, data=st.data())
def test_the_checksum_depends_on_the_files_and_not_on_how_entries_were_merged(
    entries: Entries, data: st.DataObject
) -> None:
    files = files_of(entries)
    newest = len(files) - 1
    compact = data.draw(st.integers(0, newest))
    merged = [entry([file for one in files[: compact + 1] for file in one]), *map(entry, files[compact + 1 :])]
    whole = log_of(map(entry, files), 0, newest)
    assert log_of(merged, 0, newest) == whole
    split = data.draw(st.integers(0, newest))
    before = log_of(map(entry, files[:split]), 0, split - 1)
    later = [file for one in files[split:] for file in one]
    assert extended(before, 0, newest, later) == whole, "an epoch adds its own files only"
    assert whole.files == sum(map(len, entries))


@given(entries=ENTRIES)
def test_an_entry_tells_the_files_that_it_names_first(entries: Entries) -> None:
    files = files_of(entries)
    newest = len(files) - 1
    assert newest_files(entry(files[-1]), newest, is_compact=False) == tuple(files[-1])
    whole = entry([file for one in files for file in one])
    assert newest_files(whole, newest, is_compact=True) == tuple(files[-1])
    assert files_named(whole) == tuple(file for one in files for file in one)


def test_a_plain_entry_with_a_file_of_another_entry_cannot_be_read() -> None:
    """Spark would pass over that file without a word."""
    data = entry([LoggedFile("file:///in/a", 1, 7), LoggedFile("file:///in/b", 1, 5), LoggedFile("file:///in/c", 1, 7)])
    with pytest.raises(ValueError, match="a file of another entry, number=7, found=5"):
        newest_files(data, 7, is_compact=False)
    with pytest.raises(ValueError, match="a file of another entry, number=4, found=7"):
        newest_files(data, 4, is_compact=True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"v3\n",
        b"v1\n7",
        b'v1\n{"path":"a","timestamp":1}',
        b'v1\n{"path":"a","timestamp":1,"batchId":true}',
        b'v1\n{"path":"a","timestamp":1,"batchId":0,"more":1}',
        b'v1\n{"path":"a","timestamp"',
        b"v1\n\xff",
    ],
)
def test_what_is_no_entry_of_files_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not the |Expecting|decode"):
        files_named(data)


def test_the_checksum_is_the_sum_of_one_hash_per_file() -> None:
    """These values are stored: a change of them is a new format of the manifest."""
    one = LoggedFile("file:///in/a%20b.json", 1_600_000_000_000, 0)
    assert extended(None, 0, 0, [one]) == SourceLog(0, 0, 1, "0f93392d0b2a4b7d")
    assert extended(None, 0, 0, [one, one]) == SourceLog(0, 0, 2, "1f26725a165496fa")
    assert extended(None, 2, 0, []) == SourceLog(2, 0, 0, "0000000000000000")


def test_only_logs_of_files_have_an_end() -> None:
    assert ends_of([SourceLog(0, 7, 9, "00"), beginning(1, b"v1\n17")]) == {0: 7}
    assert beginning(1, b"v1\n17") != beginning(1, b"v1\n16")
