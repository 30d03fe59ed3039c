"""The mode of a job: the table of semantics.md, section 1, row by row."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import JobSpec, ModePolicy, resolve_mode


def job(mode: str | None, interval_during_backlog: str | int | None, bounded: tuple[bool, ...] = (False,)) -> JobSpec:
    execution: dict[str, Any] = {
        "runtime-mode": mode,
        "interval-during-backlog": interval_during_backlog,
        "checkpointing": {"dir": "/run", "interval": "2s"},
    }
    sources = {f"s{i}": {"format": "parquet", "path": "/s", "bounded": one} for i, one in enumerate(bounded)}
    return JobSpec.model_validate(
        {
            "name": "a",
            "execution": execution,
            "sources": sources,
            "steps": [{"sql": "SELECT 1"}],
            "sink": {"format": "console"},
        }
    )


@pytest.mark.parametrize(
    ("mode", "interval", "bounded", "expected"),
    [
        ("batch", None, (False,), ModePolicy("batch", 0, 0)),
        ("batch", "10s", (True,), ModePolicy("batch", 0, 0)),
        ("mixed", None, (False,), ModePolicy("mixed", 0, 2_000)),
        ("mixed", 0, (True,), ModePolicy("mixed", 0, 2_000)),
        ("mixed", "10s", (False,), ModePolicy("streaming", 10_000, 2_000)),
        ("streaming", None, (False,), ModePolicy("streaming", 2_000, 2_000)),
        ("streaming", "10s", (False,), ModePolicy("streaming", 10_000, 2_000)),
        ("streaming", 0, (False,), ModePolicy("mixed", 0, 2_000)),
        ("automatic", None, (True, True), ModePolicy("batch", 0, 0)),
        ("automatic", None, (True, False), ModePolicy("mixed", 0, 2_000)),
        ("automatic", "10s", (False,), ModePolicy("streaming", 10_000, 2_000)),
        (None, None, (False,), ModePolicy("mixed", 0, 2_000)),
        (None, None, (True,), ModePolicy("batch", 0, 0)),
    ],
)
def test_the_mode_follows_from_mode_interval_and_sources(
    mode: str | None, interval: str | int | None, bounded: tuple[bool, ...], expected: ModePolicy
) -> None:
    assert resolve_mode(job(mode, interval, bounded)) == expected


@given(
    st.sampled_from([None, "batch", "streaming", "mixed", "automatic"]),
    st.none() | st.just(0) | st.integers(1, 10**9).map("{}ms".format),
    st.lists(st.booleans(), min_size=1, max_size=3),
)
def test_a_job_that_is_not_batch_is_mixed_exactly_when_its_backlog_has_no_commits(
    mode: Literal["batch", "streaming", "mixed", "automatic"] | None, interval: str | int | None, bounded: list[bool]
) -> None:
    policy = resolve_mode(job(mode, interval, tuple(bounded)))
    assert (policy.mode == "batch") == (mode == "batch" or (mode in (None, "automatic") and all(bounded)))
    if policy.mode != "batch":
        assert (policy.mode == "mixed") == (policy.backlog_interval_ms == 0)
        assert policy.live_interval_ms == 2_000
