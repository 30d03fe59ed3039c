"""Every connector of this Spark's passes the contract; those of tables in a lakehouse do in tests/lakehouse."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connectors.contract import (
    batch_and_streaming_mode_give_the_answer,
    it_goes_live_although_more_arrives_all_the_time,
    it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint,
)
from tests.connectors.rigs import CONNECTED, CONNECTORS, RIGS, rig

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def each(rigs: Sequence[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("source", "sink"), rigs, ids=[f"{source}-to-{sink}" for source, sink in rigs])


@each(RIGS)
def test_batch_and_streaming_mode_give_the_answer(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    batch_and_streaming_mode_give_the_answer(partial(rig, request, source, sink), spark, tmp_path)


@each(CONNECTORS)
def test_deaths_an_epoch_again_and_an_older_checkpoint(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    new_rig = partial(rig, request, source, sink)
    it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint(new_rig, spark, tmp_path)


@each(CONNECTED)
def test_the_job_goes_live_although_more_arrives_all_the_time(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_goes_live_although_more_arrives_all_the_time(partial(rig, request, source, sink), spark, tmp_path)
