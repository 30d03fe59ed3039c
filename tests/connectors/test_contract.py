"""Every connector of this Spark's passes the contract; those of tables in a lakehouse do in tests/lakehouse."""

from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connectors.contract import (
    it_gives_the_answer_in_batch_mode,
    it_gives_the_answer_in_streaming_mode,
    it_goes_live_although_more_arrives_all_the_time,
    it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint,
)
from tests.connectors.rigs import CONNECTED, CONNECTORS, PLAIN, RIGS, rig

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def each(rigs: Sequence[tuple[str, str]], default: Container[tuple[str, str]] | None = None) -> pytest.MarkDecorator:
    """A case for each rig; those that are not `default` run in `make soak` only."""
    return pytest.mark.parametrize(
        ("source", "sink"),
        [
            pytest.param(*one, id="-to-".join(one), marks=() if default is None or one in default else pytest.mark.soak)
            for one in rigs
        ],
    )


@each(RIGS, {(PLAIN, PLAIN), ("parquet", "parquet")})
def test_batch_mode_gives_the_answer(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_gives_the_answer_in_batch_mode(partial(rig, request, source, sink), spark, tmp_path)


@each(RIGS, {("kafka", "kafka")})
def test_streaming_mode_gives_the_answer(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_gives_the_answer_in_streaming_mode(partial(rig, request, source, sink), spark, tmp_path)


#: the others are in tests/tables, tests/sinks, tests/custom and tests/history, too
@each(CONNECTORS, {(PLAIN, PLAIN), ("kafka", "kafka")})
def test_deaths_an_epoch_again_and_an_older_checkpoint(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    new_rig = partial(rig, request, source, sink)
    it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint(new_rig, spark, tmp_path)


@each(CONNECTED, {("kafka", PLAIN)})
def test_the_job_goes_live_although_more_arrives_all_the_time(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_goes_live_although_more_arrives_all_the_time(partial(rig, request, source, sink), spark, tmp_path)
