"""Delta Lake and Iceberg pass the contract of tests/connectors: as source, as sink, and as a history before a topic."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connectors.contract import (
    every_mode_gives_the_answer,
    it_goes_live_although_more_arrives_all_the_time,
    it_lives_through_kills_an_epoch_again_and_an_older_checkpoint,
)
from tests.connectors.rigs import killed_in
from tests.lakehouse.rigs import RIGS, rig

pytestmark = [pytest.mark.spark, pytest.mark.faults]

every_connector = pytest.mark.parametrize(("source", "sink"), RIGS, ids=[f"{a}-to-{b}" for a, b in RIGS])


@every_connector
def test_every_mode_gives_the_answer(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    every_mode_gives_the_answer(partial(rig, request, source, sink), spark, tmp_path)


@every_connector
def test_kills_an_epoch_again_and_an_older_checkpoint(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_lives_through_kills_an_epoch_again_and_an_older_checkpoint(
        partial(rig, request, source, sink), spark, tmp_path, killed=killed_in(source, sink)
    )


@every_connector
def test_the_job_goes_live_although_more_arrives_all_the_time(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_goes_live_although_more_arrives_all_the_time(partial(rig, request, source, sink), spark, tmp_path)
