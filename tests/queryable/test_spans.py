"""The ranges of key groups and of stored keys that a question has to read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.types import RunFile
from mixedmode.queryable.spans import EVERYTHING, Question, after_position, spans_of, uncut_ranges

GROUPS = 16


@st.composite
def a_run(draw: st.DrawFn, number: int = 0) -> RunFile:
    start = draw(st.integers(0, GROUPS - 1))
    end = draw(st.integers(start + 1, GROUPS))
    name = f"{draw(st.integers(0, 99))}-{number}"
    return RunFile(name, draw(st.integers(0, 1)), 1, 1, start, end, "")


@given(runs=st.lists(a_run(), max_size=8), state_id=st.integers(0, 1))
def test_in_an_uncut_range_each_key_group_has_exactly_its_valid_runs_in_their_order(
    runs: list[RunFile], state_id: int
) -> None:
    found = uncut_ranges(runs, state_id)
    groups = [group for one in found for group in range(one.groups.start, one.groups.end)]
    assert groups == sorted(set(groups))
    by_group = {group: one.runs for one in found for group in range(one.groups.start, one.groups.end)}
    for group in range(GROUPS):
        valid = [r for r in runs if r.state_id == state_id and r.key_group_start <= group < r.key_group_end]
        assert list(by_group.get(group, ())) == valid


KEYS = [(group, key) for group in (0, 3, 255, 256) for key in (b"\x01a", b"\x01ab", b"\x01\xff", b"\x02")]


def stored(group: int, state_id: int, key: bytes, rest: bytes = b"") -> bytes:
    return group.to_bytes(2, "big") + bytes([state_id]) + key + rest


@given(
    wanted=st.lists(st.sampled_from(KEYS)),
    position=st.sampled_from([stored(group, state_id, key) for group, key in KEYS for state_id in (0, 1)]),
)
def test_spans_of_keys_cut_at_a_position_contain_these_keys_from_there_on(
    wanted: list[tuple[int, bytes]], position: bytes
) -> None:
    spans = after_position(spans_of(Question(keys=tuple(wanted)), 1, 300, key_first=True), position)
    everything = [stored(group, state_id, key) for group, key in KEYS for state_id in (0, 1, 2)]
    found = [key for key in everything if any(span.start <= key < span.end for span in spans)]
    # a key such as 01 61 is the beginning of 01 61 62 here, which no two encoded keys are
    expected = [
        key
        for key in everything
        if key >= position and any(key.startswith(stored(group, 1, own)) for group, own in wanted)
    ]
    assert found == expected


@pytest.mark.parametrize(("question", "key_first"), [(EVERYTHING, True), (Question(prefix=b"\x01a"), False)])
def test_a_scan_has_a_span_for_each_key_group_of_its_state(question: Question, key_first: bool) -> None:
    spans = spans_of(question, 2, 3, key_first=key_first)
    assert [(span.group, span.start, span.end) for span in spans] == [
        (0, b"\0\0\2", b"\0\0\3"),
        (1, b"\0\1\2", b"\0\1\3"),
        (2, b"\0\2\2", b"\0\2\3"),
    ]


def test_a_prefix_of_keys_is_one_range_in_each_key_group() -> None:
    spans = spans_of(Question(prefix=b"\x01a"), 0, 2, key_first=True)
    assert [(span.start, span.end) for span in spans] == [
        (b"\0\0\0\x01a", b"\0\0\0\x01b"),
        (b"\0\1\0\x01a", b"\0\1\0\x01b"),
    ]
