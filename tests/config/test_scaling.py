"""Settings of parallelism and of the autoscaler: of steps, and those that contradict each other."""

from typing import Any

import pytest
from pydantic import ValidationError

from mixedmode.config.execution import AutoscalerSpec
from mixedmode.config.messages import findings
from mixedmode.config.spec import JobSpec
from tests.config.refusals import SMALLEST_JOB, messages

BY_KEY: dict[str, Any] = {"key-by": "a", "aggregate": {"n": "count(*)"}}


def job(*, autoscaler: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    execution = {"checkpointing": {"dir": "/run"}, **changes.pop("execution", {})}
    if autoscaler is not None:
        execution["autoscaler"] = {"enabled": True, **autoscaler}
    return {**SMALLEST_JOB, "execution": execution, "steps": [BY_KEY], **changes}


def refused(**changes: Any) -> list[str]:
    return messages(JobSpec, job(**changes))


def test_the_autoscaler_is_off_and_has_defaults() -> None:
    spec = JobSpec.model_validate(job()).execution.autoscaler
    assert spec == AutoscalerSpec()
    assert (spec.enabled, spec.min_parallelism, spec.max_parallelism) == (False, 1, None)
    assert (spec.target_utilization, spec.target_lag_ms, spec.target_throughput) == (0.7, None, None)
    assert spec.cool_down_ms == 60_000


def test_a_step_is_named_by_its_name_or_its_place() -> None:
    steps = [{"sql": "SELECT 1"}, BY_KEY, {**BY_KEY, "name": "again", "parallelism": 3}, BY_KEY]
    spec = JobSpec.model_validate(job(steps=steps))
    assert spec.step_parallelism == {"aggregate-1": None, "again": 3, "aggregate-3": None}


def test_a_group_by_in_sql_has_subtasks() -> None:
    steps = [
        {"sql": "SELECT a, count(*) AS n FROM t GROUP  BY a"},
        {"name": "once", "sql": "select distinct n FROM previous"},
    ]
    spec = JobSpec.model_validate(job(steps=steps, autoscaler={}))
    assert spec.step_parallelism == {"sql-1": None, "once": None}


TOO_MANY = (
    " is more than the number of key groups, so some subtasks would never receive data. Lower it, or raise "
    "max-parallelism. found=200, max-parallelism=128"
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": [{**BY_KEY, "parallelism": 200}]}, f"steps[0].parallelism{TOO_MANY}"),
        ({"autoscaler": {"max-parallelism": 200}}, f"execution.autoscaler.max-parallelism{TOO_MANY}"),
        (
            {"autoscaler": {"min-parallelism": 5, "max-parallelism": 4}},
            (
                "execution.autoscaler.min-parallelism is more than the autoscaler's max-parallelism, so that no number "
                "is allowed. Lower it, or raise the other. found=5, max-parallelism=4"
            ),
        ),
        (
            {"autoscaler": {"min-parallelism": 2, "max-parallelism": 4}, "parallelism": 5},
            "parallelism is not what the autoscaler may choose: from 2 to 4. Change one of them. found=5",
        ),
        (
            {"autoscaler": {"min-parallelism": 2}, "parallelism": 1},
            "parallelism is not what the autoscaler may choose: from 2 on. Change one of them. found=1",
        ),
        (
            {"autoscaler": {}, "execution": {"runtime-mode": "batch"}},
            ("execution.autoscaler.enabled has no effect: batch mode is over before it is live. Remove it. mode=batch"),
        ),
        (
            {"autoscaler": {}, "steps": [{**BY_KEY, "parallelism": 2}]},
            (
                "execution.autoscaler.enabled has no effect: there is no step with subtasks that has no parallelism of "
                "its own. Remove it, or that."
            ),
        ),
        (
            {"autoscaler": {"target-utilization": 1.5}},
            "execution.autoscaler.target-utilization must be at most 1.0. found=1.5",
        ),
        (
            {"autoscaler": {"target-utilization": "high"}},
            "execution.autoscaler.target-utilization must be a number, not text. found=high",
        ),
        (
            {
                "sources": {"s": {"format": "parquet", "path": "/s", "event-time": "t"}},
                "steps": [{"window": {"tumbling": "1h"}, "aggregate": {"n": "count(*)"}, "parallelism": 2}],
            },
            (
                "steps[0].parallelism has no effect without a key: all records go to one subtask. Add key columns, or "
                "remove it."
            ),
        ),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    assert refused(**changes) == [message]


def test_settings_of_an_autoscaler_that_is_off_do_not_have_to_fit() -> None:
    spec = JobSpec.model_validate(job(execution={"autoscaler": {"min-parallelism": 3}}, parallelism=1))
    assert spec.execution.autoscaler.min_parallelism > 1


def test_what_is_refused_is_refused_at_its_path() -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate(job(autoscaler={"min-parallelism": 2}, parallelism=1))
    assert [path for path, _ in findings(caught.value, JobSpec)] == [("parallelism",)]
