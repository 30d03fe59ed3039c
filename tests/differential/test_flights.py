"""20,000 real flights: history January and February, live March, and flips at random places.

Every mode gives the table that plain Python recomputes, after every epoch.
"""

import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mixedmode.job import Job, Source
from tests.differential.oracle import Call, Table, aggregate, differences
from tests.differential.stories import MODES, Mode, Piece, Story, epochs_of, play, table_after
from tests.harness import SPARK_CASES, manifests, output_table, write_text

FLIGHTS = Path(__file__).parents[3] / "shared/data/flights"
MONTHS = ("2001-01", "2001-02", "2001-03")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not FLIGHTS.is_dir(), reason=f"the flights are not part of the project, and not at {FLIGHTS}"),
]

# every aggregate, each over types that it is at home with: name -> (SQL, the same for the oracle)
AGGREGATES = {
    "flights": ("count(*)", Call("count")),
    "delays": ("count(delay)", Call("count", "delay")),
    "total": ("sum(delay)", Call("sum", "delay")),
    "miles": ("sum(miles)", Call("sum", "miles")),
    "hours": ("sum(hours)", Call("sum", "hours")),
    "best": ("min(delay)", Call("min", "delay")),
    "worst": ("max(delay)", Call("max", "delay")),
    "shortest": ("min(hours)", Call("min", "hours")),
    "alphabet": ("max(destination)", Call("max", "destination")),
    "latest": ("max(date)", Call("max", "date")),
    "mean": ("avg(delay)", Call("avg", "delay")),
    "mean_miles": ("avg(miles)", Call("avg", "miles", scale=6)),
    "mean_hours": ("avg(hours)", Call("avg", "hours")),
    "spread": ("stddev_samp(delay)", Call("stddev_samp", "delay")),
    "spread_all": ("stddev_pop(delay)", Call("stddev_pop", "delay")),
    "variance": ("var_samp(hours)", Call("var_samp", "hours")),
    "variance_all": ("var_pop(hours)", Call("var_pop", "hours")),
    "first_to": ("first(destination)", Call("first", "destination")),
    "last_to": ("last(destination)", Call("last", "destination")),
    "last_delay": ("last(delay)", Call("last", "delay")),
    "always_late": ("bool_and(is_late)", Call("bool_and", "is_late")),
    "ever_late": ("bool_or(is_late)", Call("bool_or", "is_late")),
}
SUMS_OF_DOUBLES = {"hours", "mean_hours", "spread", "spread_all", "variance", "variance_all"}
SQL = """
    SELECT *, CAST(distance AS DECIMAL(12, 2)) AS miles, delay / 60D AS hours, delay > 0 AS is_late
    FROM t WHERE distance > 100
"""


@cache
def lines() -> tuple[str, ...]:
    """All flights in the order in which they left."""
    return tuple(line for month in MONTHS for line in (FLIGHTS / f"{month}.jsonl").read_text().splitlines())


@cache
def flights() -> tuple[dict[str, Any] | None, ...]:
    """Return the row that the SQL step makes of each line, in plain Python; None for a line that it drops."""
    return tuple(_read(json.loads(line)) for line in lines())


def _read(flight: dict[str, Any]) -> dict[str, Any] | None:
    if flight["distance"] <= 100:
        return None
    date = datetime.strptime(flight["date"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    extra = {"miles": Decimal(flight["distance"]), "hours": flight["delay"] / 60, "is_late": flight["delay"] > 0}
    return {**flight, "date": date, **extra}


def test_january_and_february_are_history_march_is_live_and_every_mode_gives_the_same_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    months = [sum(line.startswith(f'{{"date":"{month}') for line in lines()) for month in MONTHS]
    borders = [0, months[0], months[0] + months[1], len(lines())]
    keys = ["origin", "destination"]
    exact = [name for name in AGGREGATES if name not in SUMS_OF_DOUBLES]
    tables = []
    for mode in MODES:
        _check(mode, borders, flip=2, key_by=keys, spark=spark, base=tmp_path / mode)
        tables.append(output_table(tmp_path / mode / "out").select([*keys, *exact]))
    assert tables[0].equals(tables[1]), "batch and streaming, to the last bit"
    assert tables[0].equals(tables[2]), "batch and mixed, to the last bit"
    epochs = manifests(tmp_path / "mixed" / "checkpoints")
    assert [(m.is_backlog, m.strategy, m.records_in) for m in epochs] == [
        (True, "sorted", sum(flight is not None for flight in flights()[: borders[2]])),
        (False, "streaming", sum(flight is not None for flight in flights()[borders[2] :])),
    ]


@settings(SPARK_CASES, max_examples=2)
@given(
    cuts=st.lists(st.integers(0, 20_000), min_size=1, max_size=4),
    flip=st.integers(0, 3),
    mode=st.sampled_from(["mixed", "mixed", "streaming"]),
    parallelism=st.sampled_from([1, 2, 4]),
)
def test_the_flip_may_be_anywhere(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    cuts: list[int],
    flip: int,
    mode: Mode,
    parallelism: int,
) -> None:
    borders = [0, *sorted(cuts), len(lines())]
    base = tmp_path_factory.mktemp("flip")
    _check(mode, borders, min(flip, len(cuts)), ["destination"], spark, base, parallelism=parallelism)


def _check(
    mode: Mode,
    borders: Sequence[int],
    flip: int,
    key_by: list[str],
    spark: SparkSession,
    base: Path,
    *,
    parallelism: int = 2,
) -> None:
    """Run the job with files between the borders, and compare the table after each epoch with the oracle's."""
    source = partial(
        Source.json,
        schema="date timestamp, origin string, destination string, delay long, distance long",
        event_time="date",
        out_of_orderness="1h",
    )
    story = Story([_piece(a, b) for a, b in itertools.pairwise(borders)], flip, source)

    def steps(job: Job) -> Job:
        return job.sql(SQL).key_by(*key_by).aggregate({name: sql for name, (sql, _) in AGGREGATES.items()})

    outcome = play(story, mode, steps, spark, base, parallelism=parallelism, max_parallelism=128)
    arrived = 0
    for epoch, pieces in enumerate(epochs_of(story, mode)):
        arrived += pieces
        found = table_after(outcome, epoch, key_by)
        assert not differences(_expected(borders[arrived], key_by), found), (mode, epoch)


def _expected(end: int, key_by: Sequence[str]) -> Table:
    rows = [flight for flight in flights()[:end] if flight is not None]
    return aggregate(rows, key_by, {name: call for name, (_, call) in AGGREGATES.items()}, event_time="date")


def _piece(start: int, end: int) -> Piece:
    return lambda folder: write_text(
        folder, f"{start:06}-{end:06}.jsonl", "".join(f"{line}\n" for line in lines()[start:end])
    )
