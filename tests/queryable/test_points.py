"""Rows of plain keys are those of a read by table, and other keys and parts are not plain."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.queryable import open_state
from mixedmode.queryable.points import plain_key
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import EPOCHS, counts


def by_number(job: Any) -> Any:
    aggregates = {
        "n": "count(*)",
        "names": "collect_set(k, 9)",
        "least": "min(k)",
        "latest": "max(at)",
        "mean": "avg(v)",
    }
    return job.key_by("v").aggregate(**aggregates)


def twice(job: Any) -> Any:
    """An aggregate over a changelog, whose keys may be deleted again."""
    return job.key_by("k").aggregate(n="count(*)").key_by("n").aggregate(keys="count(*)")


@pytest.mark.parametrize(
    ("build", "texts"),
    [
        (counts, ["a", "k7", "none", "", "a", "b"]),
        (by_number, ["1", "5", "-7", "0", "12345678901234567", "1"]),
        (twice, [str(number) for number in range(12)]),
    ],
)
def test_the_rows_of_plain_keys_are_those_of_a_table(
    build: Callable[[Any], Any], texts: list[str], tmp_path: Path
) -> None:
    job = RunningJob(tmp_path / "job", build)
    for rows in EPOCHS:
        job.epoch(rows)
    with open_state(job.checkpoints) as state:
        step = state.steps[-1]
        found = state.plain_rows(step, texts)
        answer, places = state.read_keys(step, texts)
    assert found is not None
    assert any(place is None for place in found.places)
    rows = answer.table.to_pylist()
    lists = {
        name: column.to_pylist() if isinstance(column, pa.Array) else column for name, column in found.columns.items()
    }
    columns = {name: list(values) for name, values in lists.items()}
    for place, own, key in zip(found.places, places, found.keys, strict=True):
        row = None if place is None else {found.key_name: key.value, **{n: c[place] for n, c in columns.items()}}
        assert ([] if row is None else [row]) == [rows[at] for at in own]
    assert found.name == answer.name
    present = [at for at, place in enumerate(found.places) if place is not None]
    assert len(present) > 1
    in_order = sorted(present, key=lambda at: found.stored[at])
    order = [places[at][0] for at in in_order]
    assert order == sorted(order), "stored keys have the order of the table"


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int64(), 7),
        ("-7", pa.int8(), -7),
        ("a b", pa.string(), "a b"),
        ("", pa.large_string(), ""),
        ("07", pa.int64(), None),
        ("-0", pa.int64(), None),
        ("+7", pa.int64(), None),
        ("\u0667", pa.int64(), None),
        ("7\n", pa.int64(), None),
        ("128", pa.int8(), None),
        ("9223372036854775808", pa.int64(), None),
        ("", pa.int64(), None),
        ("[7]", pa.int64(), None),
        ("[null]", pa.string(), None),
        ("\ud800", pa.string(), None),
        ("7", pa.uint8(), None),
        ("1.5", pa.float64(), None),
        ("true", pa.bool_(), None),
    ],
)
def test_only_the_one_text_of_a_key_is_plain(text: str, kind: pa.DataType, value: object) -> None:
    key = plain_key(text, [pa.field("k", kind)])
    assert (None if key is None else key.value) == value
    assert plain_key(text, [pa.field("k", kind), pa.field("v", kind)]) is None


def test_a_part_whose_entries_are_no_rows_is_not_plain(tmp_path: Path) -> None:
    job = RunningJob(tmp_path / "job", lambda job: job.key_by("k").window(tumbling="1m").aggregate(n="count(*)"))
    job.epoch(EPOCHS[0])
    with open_state(job.checkpoints) as state:
        assert state.plain_rows(state.steps[0], ["a"]) is None
