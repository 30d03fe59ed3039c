"""The scan of JSON files lets a line pass only if Spark's reader returns all of it. Spark is not needed here."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.connectors.files import file_blocks
from mixedmode.connectors.files.file_blocks import parts_of
from mixedmode.connectors.files.json_scan import doubtful, is_plain

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('ab{}[]",:\\ \u00fc\u4e2d\U0001f600', max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a{}"\\', max_size=3), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text('ab{}"', max_size=3), VALUES, max_size=4)
BLANKS = st.text(" \t", max_size=2)
#: what may follow a value: nothing, or tokens of JSON and text that is no JSON
TAILS = st.lists(
    st.sampled_from(["{", "}", "[", "]", ",", ":", '"', '"a"', "1", "x", " ", "\\", '{"a":1}', "[]"]), max_size=4
)


def has_text_behind(line: str) -> bool:
    """Return whether something follows the first value, which begins the line after blanks."""
    begin = len(line) - len(line.lstrip(" \t"))
    _, end = json.JSONDecoder().raw_decode(line, begin)
    return bool(line[end:].strip(" \t\r"))


@st.composite
def lines(draw: st.DrawFn) -> str:
    value: Any = draw(OBJECTS | st.lists(OBJECTS, max_size=3))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return draw(BLANKS) + text + draw(BLANKS) + "".join(draw(TAILS)) + draw(BLANKS)


@given(st.lists(lines() | BLANKS, max_size=5), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_block_is_plain_exactly_if_no_line_has_text_behind_its_value(
    found: list[str], line_end: str, has_last_end: bool
) -> None:
    block = line_end.join(found) + (line_end if has_last_end else "")
    expected = not any(has_text_behind(line) for line in found if line.strip(" \t"))
    assert is_plain(block.encode()) == expected


@pytest.mark.parametrize("tail", ["}", ',"b":2}', " x}", "{}", '"}', "]}", ",{}"])
@pytest.mark.parametrize("value", ['{"a":1}', "[]", "{}", '{"a":{"b":"}"}}', '[{"a":[]}]'])
@pytest.mark.parametrize("others", ["", '{"a":1}\n', '{"a":{}}\n'])
def test_text_behind_a_value_that_ends_like_an_object_is_doubtful(others: str, value: str, tail: str) -> None:
    assert is_plain(f"{others}{value}\n".encode())
    assert not is_plain(f"{others}{value}{tail}\n".encode())


@pytest.mark.parametrize(
    "block",
    [
        '{"a":{}}\n{"a":1}{"b":"}\n{"}\n',  # a string over a line end
        '{"a":{}}\n{"a":1}{"b":{}\n{"c":1}}\n',  # an object over a line end
        '{"a":{}}{"a":1}\n{"b":{},\n"c":{}}\n',
        '{"a":{}}{"a":1}\n\n',
        '{"a":{}}\n{"a":1}]\n[{}',
    ],
)
def test_as_many_objects_as_lines_are_not_enough(block: str) -> None:
    assert not is_plain(block.encode())


@pytest.mark.parametrize("line", [b"1", b'"a"', b"null", b"[1]", b"[null]", b'[{"a":1},null]', b'{"a":NaN,"b":{}}'])
def test_a_line_that_is_no_object_and_no_array_of_objects_is_doubtful(line: bytes) -> None:
    assert not is_plain(line + b"\n")


def test_text_in_other_encodings_is_doubtful() -> None:
    assert not is_plain(b'{"a":"\xff"}\n')
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32-be"):
        assert not is_plain('{"a":"ü"}\n'.encode(encoding))
    assert is_plain('{"a":"ü"}\n'.encode())


def test_blocks_end_at_line_ends_however_small_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(file_blocks, "_BLOCK_BYTES", 5)
    text = b'\xef\xbb\xbf{"a":1}\n\n{"b":"a long value"}\n{"c":{}}'
    (tmp_path / "a.json").write_bytes(text)
    (tmp_path / "b.json").write_bytes(text + b"x")
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    parts = [part for path in paths for part in parts_of(path, Path(path).stat().st_size)]
    assert list(doubtful(parts)) == [paths[1]]


def test_compressed_files_are_scanned_and_damaged_ones_are_doubtful(tmp_path: Path) -> None:
    good, wrong = gzip.compress(b'{"a":1}\n'), gzip.compress(b'{"a":1}{"a":2}\n')
    files = {"a.json.gz": good, "b.json.gz": wrong, "c.json.gz": good[:-4], "d.json.snappy": b"", "e.json": good}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    parts = [part for name, content in files.items() for part in parts_of(str(tmp_path / name), len(content))]
    assert [Path(path).name for path in doubtful(parts)] == ["b.json.gz", "c.json.gz", "d.json.snappy", "e.json"]


def test_a_large_file_has_several_parts_and_an_empty_one_has_none() -> None:
    parts = list(parts_of("a.json", 150 * 1024 * 1024))
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == 150 * 1024 * 1024
    assert list(parts_of("a.json", 0)) == []
