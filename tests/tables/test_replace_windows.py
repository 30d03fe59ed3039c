"""Rows of windows in a database table are replaced in one transaction, beside the epochs of the job."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from mixedmode.checkpoint.contents import NOTHING, content_after
from mixedmode.checkpoint.types import Epoch
from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.sinks.tables.table_sink import TableSink
from mixedmode.time.window_range import Bound, ReplacedRows
from tests.checkpoint.examples import a_manifest
from tests.tables.places import Place, Row

TIME = pa.timestamp("us", "UTC")
FIELDS = (
    pa.field("window_start", TIME),
    pa.field("window_end", TIME),
    pa.field("k", pa.string()),
    pa.field("n", pa.int64()),
)
KEY = ("window_start", "window_end", "k")
HOURS_1_TO_3 = ReplacedRows(Bound("window_start", 3_600_000_000), Bound("window_end", 3 * 3_600_000_000))


def window(hour: int, k: str | None, n: int) -> Row:
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    return (start, start + timedelta(hours=1), k, n)


def prepared(place: Place, keys: tuple[str, ...], *, is_fresh: bool = True, generation: int = 1) -> TableSink:
    sink = place.sink(table="windows", generation=generation)
    sink.prepare(FIELDS, keys, is_fresh=is_fresh)
    return sink


def filled(place: Place, keys: tuple[str, ...]) -> TableSink:
    sink = prepared(place, keys)
    for epoch in range(4):
        rows = [window(epoch, k, epoch) for k in "ab"]
        given = [("insert", *row) for row in rows] if keys else rows
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, given, fields=FIELDS)])
    return sink


def rows_in(place: Place) -> list[Row]:
    return sorted(place.sql("SELECT k, n FROM windows"), key=str)


def replace(place: Place, keys: tuple[str, ...], rows: list[Row], *, base: str | None = None) -> None:
    """As a backfill does it: with a sink of its own, which is no start of the job."""
    sink = place.sink(table="windows", generation=0, base=None if base is None else place.folder / base)
    sink.prepare(FIELDS, keys, is_fresh=False)
    columns = [pa.array([row[i] for row in rows], one.type) for i, one in enumerate(FIELDS)]
    sink.replace_windows(pa.table(columns, schema=pa.schema(FIELDS)), HOURS_1_TO_3, Epoch(2))


@pytest.mark.parametrize("keys", [(), KEY], ids=["appends", "upserts"])
def test_rows_of_the_windows_are_replaced_and_the_job_goes_on(place: Place, keys: tuple[str, ...]) -> None:
    sink = filled(place, keys)
    for _ in range(2):  # a repeat changes nothing more
        replace(place, keys, [window(1, "a", 100), window(2, "new", 200)])
        assert rows_in(place) == [("a", 0), ("a", 100), ("a", 3), ("b", 0), ("b", 3), ("new", 200)]
    later = [window(4, "a", 4)]
    given = [("insert", *row) for row in later] if keys else later
    sink.publish(Epoch(4), [place.stage(sink, 4, given, fields=FIELDS)])
    newer = prepared(place, keys, is_fresh=False, generation=2)
    newer.roll_back(Epoch(2))
    assert rows_in(place) == [("a", 0), ("a", 100), ("b", 0), ("new", 200)], "going back leaves the new rows"


@pytest.mark.parametrize("keys", [(), KEY], ids=["appends", "upserts"])
def test_going_back_to_before_the_checkpoints_of_a_backfill_is_refused(place: Place, keys: tuple[str, ...]) -> None:
    filled(place, keys)
    new = [window(1, "a", 100), window(2, "new", 200)]
    replace(place, keys, new)
    after = rows_in(place)
    newer = prepared(place, keys, is_fresh=False, generation=2)
    with pytest.raises(CorruptStateError, match="cannot become what it was after this epoch"):
        newer.roll_back(Epoch(1))
    assert rows_in(place) == after


def test_going_back_to_an_epoch_without_rows_leaves_the_rows_of_a_backfill(place: Place) -> None:
    """Epoch 1 is the newest one with rows up to the oldest checkpoint, which is epoch 2."""
    sink = prepared(place, ())
    for epoch in (0, 1, 4):
        sink.publish(Epoch(epoch), [place.stage(sink, epoch, [window(epoch, "a", epoch)], fields=FIELDS)])
    replace(place, (), [window(1, "a", 100)])
    prepared(place, (), is_fresh=False, generation=2).roll_back(Epoch(2))
    assert rows_in(place) == [("a", 0), ("a", 100)]


@pytest.mark.parametrize("keys", [(), KEY], ids=["appends", "upserts"])
@pytest.mark.parametrize("later", [None, 3], ids=["no-later-epoch", "a-later-epoch"])
def test_the_oldest_checkpoint_ends_the_history_also_if_its_epoch_has_no_rows(
    place: Place, keys: tuple[str, ...], later: int | None
) -> None:
    """Epoch 0 is the only one with rows up to the oldest checkpoint, 2. A savepoint of epoch 0 or 1 has windows of the
    range open, and would write their rows a second time.
    """
    sink = prepared(place, keys)
    content, contents = NOTHING, []
    for epoch in range(4):
        staged = []
        if epoch in (0, later):
            row = window(epoch, "a", epoch)
            staged = [place.stage(sink, epoch, [("insert", *row) if keys else row], fields=FIELDS)]
        sink.publish(Epoch(epoch), staged)
        content = content_after(content, Epoch(epoch), staged)
        contents.append(content)
    for _ in range(2):
        replace(place, keys, [window(1, "new", 200)])
    newer = prepared(place, keys, is_fresh=False, generation=2)
    for epoch in range(4):
        manifest = dataclasses.replace(a_manifest(epoch), output_names=("",), output_contents={"": contents[epoch]})
        found = newer.obstacle(manifest)
        assert (found is None) == (epoch >= 2), found
    newer.roll_back(Epoch(2))
    assert rows_in(place) == [("a", 0), ("new", 200)]


def test_a_table_without_rows_up_to_the_oldest_checkpoint_is_not_changed(place: Place) -> None:
    sink = prepared(place, ())
    with pytest.raises(InvalidJobError, match="no rows of an epoch up to the oldest checkpoint"):
        replace(place, (), [window(1, "a", 100)])
    sink.publish(Epoch(3), [place.stage(sink, 3, [window(3, "a", 3)], fields=FIELDS)])
    with pytest.raises(InvalidJobError, match="oldest_checkpoint=2, oldest_epoch_in_table=3"):
        replace(place, (), [window(1, "a", 100)])
    assert rows_in(place) == [("a", 3)]


def test_a_refused_row_leaves_all_rows_as_they_were(place: Place) -> None:
    filled(place, KEY)
    before = rows_in(place)
    with pytest.raises(InvalidJobError, match="refuses a row of the windows, so nothing was replaced"):
        replace(place, KEY, [window(1, "a", 100), window(2, None, 200)])
    assert rows_in(place) == before


def test_another_checkpoint_folder_may_not_replace_rows(place: Place) -> None:
    filled(place, KEY)
    with pytest.raises(InvalidJobError, match="does not belong to this job and its checkpoint folder"):
        replace(place, KEY, [], base="elsewhere")
    assert len(rows_in(place)) == 8
