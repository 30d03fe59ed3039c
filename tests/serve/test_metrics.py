"""Metrics for Prometheus: what they count, and that the dashboard and the alerts name only metrics that exist."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mixedmode.checkpoint.types import Epoch, JoinFigures
from mixedmode.driver.events import EpochFailed, EpochStarted, Flipped, PhaseBegan, RecordsExpired
from mixedmode.serve.metrics import JobMetrics
from mixedmode.serve.monitoring import monitoring_file, monitoring_names
from tests.harness import ManualClock
from tests.serve import story
from tests.serve.site import committed, job_spec, served

NAME = re.compile(r"\bmixedmode_\w+")


def samples(metrics: JobMetrics) -> dict[str, float]:
    """The values by name and labels, as Prometheus' own parser reads them."""
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@pytest.fixture
def metrics(tmp_path: Path) -> JobMetrics:
    return JobMetrics(story.spec(tmp_path), ManualClock())


def test_counters_add_up_epochs_by_kind_and_gauges_show_the_newest(metrics: JobMetrics) -> None:
    metrics(PhaseBegan("starting"))
    metrics(PhaseBegan("live"))
    metrics(committed(0, records=40, records_late=3))
    metrics(Flipped(at_ms=5000, after_epoch=Epoch(0)))
    for epoch in (1, 2):
        manifest = story.manifest(epoch, 1000 * epoch + story.START_MS)
        given: dict[str, Any] = {"watermark_us": manifest.watermark_us, "created_ms": manifest.created_ms}
        given["joins"] = {"priced": JoinFigures((epoch, 5), 40, 3)}
        metrics(committed(epoch, records_late=1, records_ahead=2, records_skipped=3, manifest=manifest, **given))
    metrics(EpochFailed(Epoch(3), 1, 3, "the disk is full"))
    metrics(RecordsExpired("orders", "topic", 0, 5, 8))
    found = samples(metrics)
    assert found["mixedmode_records_expired_total{source=orders}"] == 3
    assert found["mixedmode_job_info{mode=mixed,name=orders}"] == 1
    assert (found["mixedmode_records_total{kind=backlog}"], found["mixedmode_records_total{kind=live}"]) == (40, 200)
    assert found["mixedmode_records_late_total"] == 5
    assert (found["mixedmode_records_ahead_total"], found["mixedmode_records_skipped_total"]) == (4, 6)
    late = [found[f"mixedmode_join_rows_late_total{{side={side},step=priced}}"] for side in ("left", "right")]
    assert late == [3, 10]
    assert found["mixedmode_join_fan_out_max{step=priced}"] == 40
    assert found["mixedmode_join_fan_out_p99{step=priced}"] == 3
    assert found["mixedmode_epoch_seconds_count{kind=live}"] == 2
    assert found["mixedmode_epoch_seconds_sum{kind=live}"] == 4.0
    assert found["mixedmode_stage_seconds_total{stage=fold}"] == 4.5
    assert found["mixedmode_epoch"] == 2
    assert (found["mixedmode_phase{phase=live}"], found["mixedmode_phase{phase=starting}"]) == (1, 0)
    assert found["mixedmode_flip_timestamp_seconds"] == 5
    assert found["mixedmode_epoch_failures_total"] == 1
    size = sum(run.bytes for run in manifest.operators[0].runs)
    assert found[f"mixedmode_state_bytes{{step={story.STEPS[0]}}}"] == size
    assert found[f"mixedmode_subtasks{{step={story.STEPS[0]}}}"] == 4
    assert found["mixedmode_watermark_timestamp_seconds{source=orders}"] == (manifest.watermark_us or 0) / 1e6
    assert found["mixedmode_event_time_lag_seconds"] == pytest.approx(12.8)


def test_ages_are_those_of_the_moment_in_which_they_are_read(metrics: JobMetrics) -> None:
    assert "mixedmode_commit_age_seconds" not in samples(metrics), "nothing is committed"
    metrics(EpochStarted(Epoch(0), is_backlog=True, strategy="sorted"))
    assert samples(metrics)["mixedmode_epoch_age_seconds"] == 1, "the clock advances by a second with each look"
    assert samples(metrics)["mixedmode_epoch_age_seconds"] == 2
    metrics(committed(0))
    found = samples(metrics)
    assert (found["mixedmode_epoch_age_seconds"], found["mixedmode_commit_age_seconds"]) == (0, 1)


def test_progress_of_a_backlog_is_bytes_and_records_of_the_total(metrics: JobMetrics) -> None:
    metrics(story.progress(0.25, "reading", 30))
    found = samples(metrics)
    assert found["mixedmode_progress_ratio"] == 0.25
    assert found["mixedmode_progress_left_seconds"] == 90
    assert (found["mixedmode_progress_read_bytes"], found["mixedmode_progress_input_bytes"]) == (1.2e9, 2.4e9)
    assert (found["mixedmode_progress_records"], found["mixedmode_progress_input_records"]) == (2.05e7, 4.1e7)


def test_the_progress_of_the_next_epoch_begins_at_nothing(metrics: JobMetrics) -> None:
    metrics(story.progress(0.25, "reading", 30))
    metrics(EpochStarted(Epoch(1), is_backlog=False, strategy="streaming"))
    found = {name: value for name, value in samples(metrics).items() if name.startswith("mixedmode_progress_")}
    assert found.pop("mixedmode_progress_left_seconds") == -1
    assert set(found.values()) == {0}


def test_what_is_not_known_yet_is_no_figure(metrics: JobMetrics) -> None:
    found = samples(metrics)
    assert math.isnan(found["mixedmode_event_time_lag_seconds"]), "a comparison with it is false, so no alert fires"
    assert found["mixedmode_epoch"] == -1
    metrics(committed(0))
    found = samples(metrics)
    assert (found["mixedmode_epoch"], math.isnan(found["mixedmode_event_time_lag_seconds"])) == (0, True)


def test_a_metric_has_a_name_with_its_unit_and_a_help_text(metrics: JobMetrics) -> None:
    units = ("_seconds", "_bytes", "_total", "_ratio", "_info", "_records", "_entries", "_runs", "_tasks")
    allowed = (
        *units,
        "_tasks_done",
        "_subtasks",
        "_phase",
        "_is_backlog",
        "_fan_out_max",
        "_fan_out_p99",
        "mixedmode_epoch",
    )
    for family in metrics.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name.startswith("mixedmode_"), name
        assert name.endswith(allowed), name
        assert family.documentation.endswith("."), name


def test_the_server_answers_in_the_text_format(tmp_path: Path) -> None:
    with served(tmp_path, spec=job_spec(tmp_path)) as site:
        answer = site.client("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"_created" not in answer.body
    assert b'mixedmode_records_total{kind="live"} 0.0\n' in answer.body, "a counter exists before its first increase"


def names_of(metrics: JobMetrics) -> set[str]:
    """The names of all series, also of metrics whose labels have no value yet."""
    found = set()
    for family in metrics.registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        found |= {f"{family.name}{suffix}" for suffix in suffixes}
    return found | {"mixedmode_commit_age_seconds"}


@pytest.mark.parametrize("name", monitoring_names())
def test_dashboard_and_alerts_name_metrics_that_exist(name: str, metrics: JobMetrics) -> None:
    text = monitoring_file(name)
    named = {found for found in NAME.findall(text) if not found.startswith("mixedmode_job_name")}
    assert named, name
    assert named - names_of(metrics) == set()


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    dashboard = json.loads(monitoring_file("grafana-dashboard.json"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert dashboard["__inputs"][0]["pluginId"] == "prometheus"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["title"], panel
        assert all(target["expr"] for target in panel["targets"]), panel["title"]
        assert panel["datasource"]["uid"] == "${DS_PROMETHEUS}", panel["title"]
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]


def test_each_alert_has_an_expression_a_severity_and_a_text_that_says_what_to_do() -> None:
    rules = yaml.safe_load(monitoring_file("prometheus-alerts.yaml"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"].endswith("."), rule["alert"]
        assert rule["annotations"]["description"].endswith("."), rule["alert"]


def test_the_documentation_lists_every_metric(metrics: JobMetrics) -> None:
    text = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    listed = re.findall(r"^\| `(mixedmode_\w+)` \|", text, re.MULTILINE)
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in metrics.registry.collect()}
    assert sorted(listed) == sorted({*names, "mixedmode_commit_age_seconds"})
