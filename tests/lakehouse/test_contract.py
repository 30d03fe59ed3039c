"""Delta Lake and Iceberg pass the contract of tests/connectors: as source, as sink, and as a history before a topic.

Batch and streaming mode over tables are in test_jobs.py. By default, Delta Lake is a source and a history before a
topic, and Iceberg is a sink; test_restarts.py has a death with the two the other way round. The rest is in `make soak`.
"""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.connectors.contract import (
    it_goes_live_although_more_arrives_all_the_time,
    it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint,
)
from tests.connectors.rigs import PLAIN
from tests.lakehouse.rigs import RIGS, rig
from tests.lakehouse.tables import ICEBERG_BY_DEFAULT

pytestmark = [pytest.mark.spark, pytest.mark.faults]

BY_DEFAULT = {("delta", "iceberg")}


@pytest.mark.parametrize(
    ("source", "sink"),
    [pytest.param(*one, id="-to-".join(one), marks=() if one in BY_DEFAULT else pytest.mark.soak) for one in RIGS],
)
def test_deaths_an_epoch_again_and_an_older_checkpoint(
    source: str, sink: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    new_rig = partial(rig, request, source, sink)
    it_lives_through_deaths_an_epoch_again_and_an_older_checkpoint(new_rig, spark, tmp_path)


@pytest.mark.parametrize("source", ICEBERG_BY_DEFAULT)
def test_the_job_goes_live_although_more_arrives_all_the_time(
    source: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    it_goes_live_although_more_arrives_all_the_time(partial(rig, request, source, PLAIN), spark, tmp_path)
