"""The seam: which side gives a record, and what the two sides have to have in common."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from mixedmode.connectors.history.source import HistoryAndLive
from mixedmode.connectors.history.spec import HistoryAndLiveSpec, Side
from mixedmode.errors import InvalidJobError
from mixedmode.sources.dead_letters import FILE_DEAD_LETTERS, HasDeadLetters
from mixedmode.sources.source import Admission, OpenSource, parse_ddl
from tests.harness import SPARK_CASES, output_rows, run, write_parquet, write_text
from tests.history.story import SCHEMA as STORY_SCHEMA
from tests.history.story import SEAM, Story, sales, table_of

pytestmark = pytest.mark.spark

MICROSECOND = timedelta(microseconds=1)
#: near the seam, where rounding to seconds or milliseconds would show, and far from it
near = st.sampled_from([SEAM - MICROSECOND, SEAM, SEAM + MICROSECOND])
far = st.integers(-(10**15), 10**15).map(lambda us: SEAM + us * MICROSECOND)
times = st.none() | near | far
Row = tuple[int, datetime | None]


class Given:
    """A side that has these rows."""

    def __init__(self, session: SparkSession, rows: list[Row], ddl: str = "n int, at timestamp") -> None:
        self.schema = parse_ddl(ddl, where="test")
        self._session = session
        self._rows = rows

    def batch(self) -> DataFrame:
        return self._session.createDataFrame(self._rows, self.schema)

    def stream(self, admission: Admission) -> DataFrame:
        raise AssertionError(admission)


def spec(**changes: Any) -> HistoryAndLiveSpec:
    values: dict[str, Any] = {
        "history": {"format": "parquet", "path": "/history"},
        "live": {"format": "parquet", "path": "/live"},
        "seam": {"timestamp": SEAM, "column": "at"},
    }
    return HistoryAndLiveSpec.model_validate(values | {name.replace("_", "-"): one for name, one in changes.items()})


def taken(session: SparkSession, history: list[Row], live: list[Row], nulls: str) -> list[int]:
    source = spec(seam={"timestamp": SEAM, "column": "at", "nulls": nulls})
    whole = HistoryAndLive(source, {"history": Given(session, history), "live": Given(session, live)}, where="test")
    return sorted(row.n for row in whole.batch().collect())


@settings(SPARK_CASES, max_examples=4)
@given(at=st.lists(times, min_size=1, max_size=400), nulls=st.sampled_from(["history", "live"]))
def test_a_record_that_both_sides_have_is_taken_once(
    spark: SparkSession, at: list[datetime | None], nulls: str
) -> None:
    rows: list[Row] = list(enumerate(at))
    assert taken(spark, rows, rows, nulls) == list(range(len(at)))
    of_history = [n for n, when in rows if (nulls == "history" if when is None else when < SEAM)]
    assert taken(spark, rows, [], nulls) == of_history


@pytest.mark.parametrize("seam", [datetime(2, 1, 1, tzinfo=UTC), datetime(1582, 10, 4, tzinfo=UTC)])
def test_a_seam_of_the_old_calendar_is_the_instant_that_it_says(spark: SparkSession, seam: datetime) -> None:
    micros = [(seam - SEAM) // MICROSECOND + number for number in (-1, 0, 1)]
    since = (SEAM - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND  # Python's rows would be moved, too
    rows = spark.createDataFrame([(number, since + one) for number, one in enumerate(micros)], "n int, us long")

    class Stored(Given):
        def batch(self) -> DataFrame:
            return rows.selectExpr("n", "timestamp_micros(us) AS at")

    source = spec(seam={"timestamp": seam, "column": "at"})
    whole = HistoryAndLive(source, {"history": Stored(spark, []), "live": Given(spark, [])}, where="test")
    assert [row.n for row in whole.batch().collect()] == [0]
    whole = HistoryAndLive(source, {"history": Given(spark, []), "live": Stored(spark, [])}, where="test")
    assert sorted(row.n for row in whole.batch().collect()) == [1, 2]


class Asked(Given):
    """Remembers with which limits it is read."""

    asked: Admission | None = None

    def stream(self, admission: Admission) -> Any:
        self.asked = admission


@pytest.mark.parametrize("event_time", [None, "at"])
def test_with_event_time_the_history_is_read_as_a_whole(spark: SparkSession, event_time: str | None) -> None:
    """Else live records of an epoch with a part of it would make the rest of it late."""
    side = {"format": "parquet", "path": "/one", "max-files-per-epoch": 1}
    history, live = Asked(spark, []), Asked(spark, [])
    given = spec(history=side, live={**side, "path": "/other"}, **({} if event_time is None else {"event_time": "at"}))
    HistoryAndLive(given, {"history": history, "live": live}, where="test").stream_sides(Admission(max_bytes=9))
    one_file = Admission(max_files=1)
    assert (history.asked, live.asked) == (one_file if event_time is None else Admission(), one_file)


@pytest.mark.parametrize("side", ["history", "live"])
def test_a_record_without_a_value_stops_the_job_or_goes_to_one_side(
    spark: SparkSession, tmp_path: Path, side: Side
) -> None:
    """The tasks read the history themselves, and Spark the live side."""
    story = Story(tmp_path / "a folder")
    story.archive(sales(-30, 30))
    story.live(sales(0, 10))
    if side == "history":
        write_parquet(
            story.folder / "archive", "null.parquet", pa.table([["nowhere"], [7], [None]], schema=STORY_SCHEMA)
        )
    else:
        write_text(story.folder / "live", "null.json", '{"shop": "nowhere", "price": 7}\n')
    with pytest.raises(InvalidJobError) as caught:
        run(story.job(), spark)
    assert str(caught.value).startswith(
        f"a record of the {side} side has no value in the column of the seam, so it cannot be told which side has to "
        "give it, and nothing was committed. Correct the record, or set the seam's `nulls` to history or live. "
        "column=at"
    )
    by_column = ("sources.sales.event-time=", "sources.sales.seam.column=at")  # a record needs its event time, too
    run(story.job(f"sources.sales.seam.nulls={side}", *by_column), spark)
    assert table_of(output_rows(story.out)) == story.answer() | {"nowhere": (1, 7)}


def refusal(session: SparkSession, history: str, live: str, **changes: Any) -> str:
    sides: dict[Side, OpenSource] = {"history": Given(session, [], history), "live": Given(session, [], live)}
    with pytest.raises(InvalidJobError) as caught:
        HistoryAndLive(spec(**changes), sides, where="job.yaml:7: sources.sales")
    return str(caught.value)


def test_every_difference_between_the_sides_is_named(spark: SparkSession) -> None:
    found = refusal(spark, "n int, at timestamp, day date", "N long, at timestamp, topic string")
    assert found == (
        "job.yaml:7: sources.sales: the history and the live side have to have the same columns. Correct the `schema` "
        "of a side; where a column is missing on purpose, set missing-columns to nulls, and it is NULL in the records "
        "of that side. differences=n is int in the history and bigint live; day is in the history only; topic is live "
        "only"
    )
    found = refusal(spark, "n int, at timestamp, day date", "n long, at timestamp", missing_columns="nulls")
    assert found.endswith("differences=n is int in the history and bigint live")


def test_a_column_that_one_side_lacks_may_be_null_there(spark: SparkSession) -> None:
    history = Given(spark, [(1, SEAM - MICROSECOND)], "n int, at timestamp")
    live: Any = Given(spark, [], "topic string, AT timestamp, n int")
    live._rows = [("orders", SEAM, 2)]
    whole = HistoryAndLive(spec(missing_columns="nulls"), {"history": history, "live": live}, where="test")
    assert whole.schema.simpleString() == "struct<n:int,at:timestamp,topic:string>"
    assert sorted((row.n, row.topic) for row in whole.batch().collect()) == [(1, None), (2, "orders")]


def test_the_column_of_the_seam_has_to_be_a_time_that_both_sides_have(spark: SparkSession) -> None:
    assert refusal(spark, "n int, at timestamp", "n int", missing_columns="nulls") == (
        "job.yaml:7: sources.sales: the live side has no column at, with which the seam's timestamp would be compared. "
        "Columns there: n."
    )
    assert refusal(spark, "n int, at string", "n int, at string") == (
        "job.yaml:7: sources.sales: the seam's timestamp can be compared with a timestamp or a date only. Name another "
        "column, or give it the type timestamp in `schema`. column=at, type=string"
    )


def test_the_whole_has_dead_letters_where_the_live_side_has(spark: SparkSession) -> None:
    sides: dict[Side, OpenSource] = {"history": Given(spark, []), "live": Given(spark, [])}
    assert HistoryAndLive(spec(), sides, where="test").dead_letter_fields == ()

    class Undecoded(Given):
        dead_letter_fields = FILE_DEAD_LETTERS

    whole = HistoryAndLive(spec(), {"history": Given(spark, []), "live": Undecoded(spark, [])}, where="test")
    assert isinstance(whole, HasDeadLetters)
    assert whole.dead_letter_fields == FILE_DEAD_LETTERS
