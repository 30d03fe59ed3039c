"""Job files with random faults, judged by Spark too: each mistake is an InvalidJobError, and nothing else happens."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from pyspark.sql import SparkSession

from mixedmode.analysis.job import examine
from mixedmode.analysis.problems import collecting
from mixedmode.config import JobParts, LoadedJob, read_job
from mixedmode.errors import InvalidJobError, MixedmodeError
from tests.config.test_mutations import mutated
from tests.harness import write_text
from tests.random_cases import random_cases

pytestmark = pytest.mark.spark

SOURCE = {"format": "json", "path": "in", "schema": "k string, v long, at timestamp", "event-time": "at"}
CHAIN: dict[str, Any] = {
    "name": "chain",
    "execution": {"checkpointing": {"dir": "checkpoints"}},
    "sources": {"t": SOURCE},
    "steps": [
        {"key-by": ["k"], "aggregate": {"n": "count(*)", "s": "sum(v)"}},
        {"sql": "SELECT n, s FROM previous"},
        {"key-by": ["n"], "aggregate": {"most": "max(s)"}},
    ],
    "sink": {"format": "json", "path": "out"},
}
UNION: dict[str, Any] = {
    "name": "union",
    "execution": {"checkpointing": {"dir": "checkpoints"}},
    "sources": {"t": SOURCE, "u": SOURCE},
    "steps": [
        {"name": "both", "sql": "SELECT * FROM t UNION ALL SELECT * FROM u"},
        {
            "key-by": ["k"],
            "window": {"tumbling": "1h"},
            "late": {"format": "parquet", "path": "late"},
            "aggregate": {"n": "count(*)", "s": "sum(v)"},
        },
        {"sql": "SELECT k, n, s, window_start, window_end FROM previous"},
    ],
    "sink": {"format": "parquet", "path": "out"},
}


@example(job={**CHAIN, "sources": {}})
@example(job={**CHAIN, "steps": []})
@example(job={**CHAIN, "steps": [None]})
@example(job={**CHAIN, "sources": {"t": None}})
@settings(max_examples=random_cases(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(job=mutated([CHAIN, UNION]))
def test_a_job_with_faults_is_planned_or_refused(spark: SparkSession, tmp_path: Path, job: dict[str, Any]) -> None:
    try:
        # JSON is YAML
        found = read_job(write_text(tmp_path, "job.yaml", json.dumps(job)))
    except InvalidJobError:  # it is not YAML, or too deep
        return
    mistakes: list[MixedmodeError] = []
    parts = JobParts.whole(found.spec) if isinstance(found, LoadedJob) else found.parts
    if parts is not None:
        where = found.where if isinstance(found, LoadedJob) else found.document.where
        with collecting(mistakes):
            examine(spark, parts, where, mistakes)
    assert {type(mistake) for mistake in mistakes} <= {InvalidJobError}
    assert all(str(mistake).strip() for mistake in mistakes)
    if not isinstance(found, LoadedJob):
        told = str(found.refusal(mistakes)).splitlines()
        assert {str(problem).splitlines()[0] for problem in found.problems} <= set(told), "what YAML says is kept"
