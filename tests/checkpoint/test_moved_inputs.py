"""Names of input files in Spark's log, after their folder has moved."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.moved_inputs import moved_entry, spark_url


def entry(*paths: str) -> bytes:
    lines = [f'{{"path":"{path}","timestamp":{7 + number},"batchId":0}}' for number, path in enumerate(paths)]
    return "\n".join(["v1", *lines]).encode()


def test_files_of_a_folder_that_moved_get_their_new_names_and_others_keep_theirs() -> None:
    before = entry("file:///in/a.json", "file:///in/deep/b%20c.json", "file:///input/d.json", "s3://in/e.json")
    after = entry("file:///data/in/a.json", "file:///data/in/deep/b%20c.json", "file:///input/d.json", "s3://in/e.json")
    assert moved_entry(before, {"/in": "/data/in"}) == (after, 2)
    assert moved_entry(after, {"file:///data/in/": "/in/"}) == (before, 2)
    assert moved_entry(entry("file:///in/a.json"), {"/in": "s3://lake/in"}) == (entry("s3://lake/in/a.json"), 1)


def test_names_are_escaped_as_spark_does_it() -> None:
    before = entry("file:///my%20files/100%25/größe/a%20b.json")
    after = entry("file:///other%20files/größe/a%20b.json")
    assert moved_entry(before, {"/my files/100%": "/other files"}) == (after, 1)
    assert moved_entry(after, {"/other files": "/my files/100%"}) == (before, 1)


def test_each_folder_moves_on_its_own_and_no_file_twice() -> None:
    before = entry("file:///a/x", "file:///b/y")
    assert moved_entry(before, {"/a": "/b", "/b": "/c"}) == (entry("file:///b/x", "file:///c/y"), 2)


@pytest.mark.parametrize("data", [b"v1", b"v1\n", b"v1\n17", b'v1\n{"start":3}', b"0", b'v1\n{"path":7}'])
def test_entries_of_other_sources_stay_as_they_are(data: bytes) -> None:
    assert moved_entry(data, {"/in": "/out"}) == (data, 0)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0\n"), min_size=1, max_size=5).filter(
    lambda name: name not in {".", ".."}
)
FOLDERS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))


@given(before=FOLDERS, now=FOLDERS, files=st.lists(FOLDERS, max_size=4))
def test_moving_there_and_back_gives_what_was(before: str, now: str, files: list[str]) -> None:
    records: list[dict[str, Any]] = [
        {"path": spark_url(before) + spark_url(file).removeprefix("file://"), "timestamp": 1, "batchId": 0}
        for file in files
    ]
    lines = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
    data = "\n".join(["v1", *lines]).encode()
    moved, count = moved_entry(data, {before: now})
    assert count == len(files)
    assert all(f'"path":"{spark_url(now)}/'.encode() in line for line in moved.splitlines()[1:])
    assert moved_entry(moved, {now: before}) == (data, len(files))
