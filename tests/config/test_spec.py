"""The spec: its defaults, its two rules about itself, and what belongs together."""

import pickle
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import ValidationError

from mixedmode.config import spec as spec_module
from mixedmode.config.calls import AggregateCall
from mixedmode.config.execution import MAX_PARALLELISM_LIMIT, ExecutionSpec, RuntimeMode
from mixedmode.config.fields import Section
from mixedmode.config.messages import _sections_in
from mixedmode.config.serve import ServeSpec
from mixedmode.config.sources import WatermarkSpec
from mixedmode.config.spec import JobSpec
from mixedmode.config.steps import KeyedAggregateStep, SqlStep
from mixedmode.connectors.console.spec import ConsoleSinkSpec
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from tests.config.refusals import SMALLEST_JOB, messages

SEVERAL_SOURCES = (
    "steps[0]: this step reads one input, and the job has several sources. Add `from` with one source, or with several "
    "to read their rows together. sources=a, b"
)
WITH_PATH = "csv, delta, iceberg, json, parquet, sqlite"  # formats of sinks


def job(**changes: Any) -> JobSpec:
    return JobSpec.model_validate(SMALLEST_JOB | changes)


def every_section() -> Iterator[type[Section]]:
    for value in vars(spec_module).values():
        if isinstance(value, type) and issubclass(value, Section) and value is not Section:
            yield value


def test_the_smallest_job_has_the_documented_defaults() -> None:
    spec = job()
    assert spec.execution.runtime_mode is RuntimeMode.AUTOMATIC
    assert spec.execution.interval_during_backlog_ms is None
    assert spec.execution.checkpointing.interval_ms == 1_000
    backlog = spec.execution.backlog
    assert (backlog.parallelism, backlog.end_of_key_watermark, backlog.emit) == (None, "greatest", "final")
    assert spec.parallelism is None
    assert spec.pipeline.max_parallelism == 128
    assert spec.pipeline.backlog.watermark_lag_threshold_ms is None
    assert spec.state.backlog.sort_memory_bytes == 1024**3
    assert spec.spark == {"spark.master": "local[*]"}
    source = spec.sources["flights"]
    assert isinstance(source, FileSourceSpec)
    assert (source.schema_ddl, source.event_time) == (None, None)
    watermark = source.watermark
    assert (watermark.out_of_orderness_ms, watermark.idle_timeout_ms) == (0, None)
    assert (watermark.max_ahead_ms, watermark.partition_column) == (86_400_000, None)
    assert (source.bounded, source.options) == (False, {})
    assert (source.max_files_per_epoch, source.max_bytes_per_epoch) == (None, None)
    assert (spec.steps[0].name, spec.sink) == (None, ConsoleSinkSpec(format="console"))


@pytest.mark.parametrize("section", list(every_section()))
def test_every_setting_is_described_and_nothing_beyond_is_taken(section: type[Section]) -> None:
    assert all(field.description for field in section.model_fields.values()), section
    assert "beyond is not a known key." in messages(section, {"beyond": 1})[-1]


def known_values(annotation: Any) -> Iterator[str]:
    """The words that a setting of this type may have."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (str(one.value) for one in annotation)
    for inner in get_args(annotation):
        yield from known_values(inner)


def test_every_word_that_a_setting_may_have_is_text_in_yaml_without_quotes() -> None:
    """A value that YAML reads as nothing would count as not set; `null` is such a word."""
    for section in all_sections(JobSpec):
        for name, field in section.model_fields.items():
            for word in known_values(field.annotation):
                assert yaml.safe_load(f"a: {word}") == {"a": word}, (section, name)


def all_sections(section: type[Section]) -> set[type[Section]]:
    """A section, and all those in it."""
    inner = {one for field in section.model_fields.values() for one in _sections_in(field.annotation)}
    return {section}.union(*(all_sections(one) for one in inner))


def test_a_spec_cannot_be_changed() -> None:
    spec = job()
    with pytest.raises(ValidationError, match="frozen"):
        spec.parallelism = 2  # type: ignore[misc]


def test_a_spec_survives_pickling() -> None:
    spec = job(steps=[{"key-by": "a", "aggregate": {"n": "count(*)"}}])
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_spec_is_the_same_when_it_is_read_from_its_own_document() -> None:
    spec = job(
        execution={"runtime-mode": "streaming", "checkpointing": {"dir": "/run", "interval-during-backlog": "2m"}},
        spark={"master": "local[2]", "spark.ui.enabled": False, "spark.spark.odd": 1},
        steps=[{"key-by": ["a", "b"], "aggregate": {"n": "COUNT( * )", "m": "mean(x)"}, "name": "per_a"}],
    )
    document = spec.as_document()
    assert document["execution"] == {
        "runtime-mode": "streaming",
        "interval-during-backlog": "2m",
        "checkpointing": {"dir": "/run"},
    }
    assert document["spark"] == {"master": "local[2]", "ui.enabled": "false", "spark.spark.odd": "1"}
    assert document["steps"] == [{"name": "per_a", "key-by": ["a", "b"], "aggregate": {"n": "count(*)", "m": "avg(x)"}}]
    assert JobSpec.model_validate(document) == spec


def test_the_server_has_an_address_and_both_parts_of_tls_or_none() -> None:
    for listen, expected in ((8080, "8080"), ("0.0.0.0:443", "0.0.0.0:443"), ("[::1]:0", "[::1]:0")):
        spec = job(serve={"listen": listen})
        assert spec.serve is not None
        assert spec.serve.listen == expected
        assert JobSpec.model_validate(spec.as_document()) == spec
    assert messages(ServeSpec, {"listen": "eighty"}) == [
        "listen is not an address. Write a port, or a host and a port, such as 8080. found=eighty"
    ]
    assert messages(ServeSpec, {"listen": "65536"})[0].startswith("listen is not an address")
    assert messages(ServeSpec, {"listen": "1", "cert": "c"}) == [
        "key is missing: TLS needs a certificate and its key. Add it, or remove the other one."
    ]
    assert "listen" in messages(ServeSpec, {"listen": True})[0]


def test_no_limit_ahead_of_the_clock_is_written_in_a_word() -> None:
    source = SMALLEST_JOB["sources"]["flights"] | {"event-time": "t", "watermark": {"max-ahead": "none"}}
    spec = job(sources={"flights": source})
    assert spec.sources["flights"].watermark.max_ahead_ms is None
    document = spec.as_document()
    assert document["sources"]["flights"]["watermark"] == {"max-ahead": "none"}
    assert JobSpec.model_validate(document) == spec


def test_a_single_key_column_may_be_given_without_brackets() -> None:
    count = AggregateCall.parse("count(*)")
    step = KeyedAggregateStep.model_validate({"key-by": "origin", "aggregate": {"n": count}})
    assert step.key_by == ("origin",)
    assert step.aggregate == {"n": count}


@pytest.mark.parametrize(
    "execution",
    [
        {"interval-during-backlog": "10s"},
        {"checkpointing": {"interval-during-backlog": "10s"}},
        {"interval-during-backlog": "10s", "checkpointing": {"interval-during-backlog": "10000ms"}},
    ],
)
def test_both_spellings_of_the_interval_during_backlog_end_in_one_field(execution: dict[str, Any]) -> None:
    spec = ExecutionSpec.model_validate(execution)
    assert spec == ExecutionSpec.model_validate({"interval-during-backlog": "10s"})
    assert spec.interval_during_backlog_ms == 10_000
    assert spec.checkpointing.interval_during_backlog_ms is None


def test_two_different_intervals_during_backlog_are_refused() -> None:
    given = {"interval-during-backlog": 0, "checkpointing": {"interval-during-backlog": "10s"}}
    assert messages(ExecutionSpec, given) == [
        (
            "interval-during-backlog is given under execution.checkpointing too, with another value. Keep one of the "
            "two. here=0s, there=10s"
        )
    ]


def test_the_limit_of_parallelism_is_the_one_of_the_key_groups() -> None:
    groups = pytest.importorskip("mixedmode.keys.groups")
    assert groups.MAX_PARALLELISM_LIMIT == MAX_PARALLELISM_LIMIT


@pytest.mark.parametrize(
    ("model", "values", "expected"),
    [
        (
            FileSourceSpec,
            {"format": "json", "path": "x"},
            [
                (
                    "schema is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                    '"date timestamp, origin string". format=json'
                )
            ],
        ),
        (
            FileSourceSpec,
            {"format": "csv", "path": "x", "watermark": {"out-of-orderness": "1h"}},
            [
                (
                    "schema is missing: these files do not say what columns they have. Add them as Spark DDL, such as "
                    '"date timestamp, origin string". format=csv'
                ),
                (
                    "watermark.out-of-orderness has no effect without event-time. Name the column in event-time, or "
                    "remove it."
                ),
            ],
        ),
        (
            FileSourceSpec,
            {
                "format": "parquet",
                "path": "x",
                "watermark": {"idle-timeout": "1m", "max-ahead": "none", "partition-column": "p"},
            },
            [
                f"watermark.{key} has no effect without event-time. Name the column in event-time, or remove it."
                for key in ("idle-timeout", "max-ahead", "partition-column")
            ],
        ),
        (WatermarkSpec, {"idle-timeout": 0}, ["idle-timeout must be more than 0. found=0"]),
        (WatermarkSpec, {"max-ahead": "0s"}, ["max-ahead must be more than 0. found=0s"]),
        (
            FileSourceSpec,
            {"format": "parquet", "path": "x", "options": {"": "y"}},
            ["options has a key without a name. Name it or remove it."],
        ),
        (FileSourceSpec, {"format": "parquet", "path": " "}, ["path must not be empty."]),
        (
            FileSourceSpec,
            {"format": "parquet", "path": "x", "max-files-per-epoch": 0},
            ["max-files-per-epoch must be at least 1. found=0"],
        ),
        (
            FileSourceSpec,
            {"format": "parquet", "path": "x", "max-bytes-per-epoch": 0},
            ["max-bytes-per-epoch must be more than 0. found=0"],
        ),
        (
            FileSourceSpec,
            {"format": "parquet", "path": "x", "max-files-per-epoch": 1, "max-bytes-per-epoch": "1MB"},
            ["max-bytes-per-epoch and max-files-per-epoch are both given, and Spark takes one of them. Remove one."],
        ),
        (SqlStep, {"sql": "\n"}, ["sql must not be empty."]),
        (
            KeyedAggregateStep,
            {"key-by": [], "aggregate": {}},
            [
                "key-by must hold at least one entry. Add one.",
                "aggregate must hold at least one entry. Add one.",
            ],
        ),
        (
            KeyedAggregateStep,
            {"aggregate": {"n": "count(*)"}, "parallelism": 2},
            ["parallelism has no effect without a key: all records go to one subtask. Add key columns, or remove it."],
        ),
        (
            KeyedAggregateStep,
            {"key-by": ["a", "A"], "aggregate": {"n": "count(*)"}},
            ["key-by names a column twice. Remove one. found=A"],
        ),
        (
            KeyedAggregateStep,
            {"key-by": ["a"], "aggregate": {"A": "count(*)", "n": "count(*)", "N": "count(*)"}},
            [
                "aggregate.A: a key column has this name already (case does not count). Choose another.",
                "aggregate.N: another one has this name already (case does not count). Choose another.",
            ],
        ),
        (
            KeyedAggregateStep,
            {"key-by": ["a"], "aggregate": {"_op": "count(*)", "x.y": "count(*)", "": "count(*)"}},
            [
                "aggregate._op: names that start with _ are kept for columns such as _op and _epoch. Choose another.",
                "aggregate.x.y: the name of an output cannot contain a dot. Choose one without it.",
                "aggregate. must not be empty.",
            ],
        ),
        (FileSinkSpec, {"format": "parquet"}, ["path is missing: the directory or URL to write files in. Add it."]),
        (
            ConsoleSinkSpec,
            {"format": "console", "path": "x"},
            [f"path is for another format: {WITH_PATH}. Remove it, or change the format."],
        ),
    ],
)
def test_what_does_not_belong_together_in_a_section_is_refused(
    model: type[Section], values: dict[str, Any], expected: list[str]
) -> None:
    assert messages(model, values) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"execution": {}},
            [
                (
                    "execution.checkpointing.dir is missing: only batch mode runs without a place for its state. Add "
                    "a folder or a URL. mode=mixed"
                )
            ],
        ),
        (
            {"execution": {"runtime-mode": "streaming"}},
            [
                (
                    "execution.checkpointing.dir is missing: only batch mode runs without a place for its state. Add "
                    "a folder or a URL. mode=streaming"
                )
            ],
        ),
        (
            {"parallelism": 129},
            [
                (
                    "parallelism is more than the number of key groups, so some subtasks would never receive data. "
                    "Lower it, or raise max-parallelism. found=129, max-parallelism=128"
                )
            ],
        ),
        ({"pipeline": {"max-parallelism": 2**15 + 1}}, ["pipeline.max-parallelism must be at most 32768. found=32769"]),
        (
            {
                "pipeline": {"max-parallelism": 2},
                "execution": {"backlog": {"parallelism": 3}, "checkpointing": {"dir": "/run"}},
            },
            [
                (
                    "execution.backlog.parallelism is more than the number of key groups, so some subtasks would "
                    "never receive data. Lower it, or raise max-parallelism. found=3, max-parallelism=2"
                )
            ],
        ),
        (
            {"execution": {"backlog": {"emit": "every", "end-of-key-watermark": "gratest"}}},
            [
                (
                    "execution.backlog.end-of-key-watermark cannot be gratest. Did you mean greatest? Known values: "
                    "greatest, max."
                ),
                "execution.backlog.emit cannot be every. Known values: final, all.",
            ],
        ),
        ({"sources": {}}, ["sources must hold at least one entry. Add one."]),
        ({"steps": []}, ["steps must hold at least one entry. Add one."]),
        (
            {"sources": {"a.b": SMALLEST_JOB["sources"]["flights"]}},
            [
                (
                    "sources.a.b: SQL reads it by its name, so the name is letters, digits and _, without a dot, and "
                    "does not start with a digit. Choose another. found=a.b"
                )
            ],
        ),
        (
            {"sources": dict.fromkeys(("a", "A"), SMALLEST_JOB["sources"]["flights"])},
            ["sources.A: another one has this name already (case does not count). Choose another."],
        ),
        (
            {"sources": {"Previous": SMALLEST_JOB["sources"]["flights"]}},
            ["sources.Previous: the step before, in sql, has this name already (case does not count). Choose another."],
        ),
        (
            {"steps": [{"sql": "SELECT 1", "name": "previous"}]},
            [
                (
                    "steps[0].name: the step before, in sql, has this name already (case does not count). "
                    "Choose another. found=previous"
                )
            ],
        ),
        (
            {
                "sources": dict.fromkeys(("a", "b"), SMALLEST_JOB["sources"]["flights"]),
                "steps": [
                    {"key-by": "a", "aggregate": {"n": "count(*)"}, "name": "B"},
                    {"sql": "SELECT 1", "name": "c"},
                    {"sql": "SELECT 1", "name": "C"},
                ],
            },
            [
                SEVERAL_SOURCES,
                "steps[0].name: a source has this name already (case does not count). Choose another. found=B",
                "steps[2].name: another step has this name already (case does not count). Choose another. found=C",
            ],
        ),
        (
            {"steps": [{"sql": "SELECT 1", "name": "per-origin"}]},
            [
                (
                    "steps[0].name: SQL reads it by its name, so the name is letters, digits and _, without a dot, "
                    "and does not start with a digit. Choose another. found=per-origin"
                )
            ],
        ),
        (
            {"steps": [{"sql": "SELECT 1", "name": "n" * 201}]},
            [
                (
                    "steps[0].name: names of files are made of it, so it has at most 200 characters. Choose a shorter "
                    f"one. found={'n' * 201}"
                )
            ],
        ),
        ({"spark": {"master": "a", "spark.master": "b"}}, ["spark.master is given twice. Keep one of the two."]),
    ],
)
def test_a_job_that_disagrees_with_itself_is_refused(changes: dict[str, Any], expected: list[str]) -> None:
    assert messages(JobSpec, SMALLEST_JOB | changes) == expected


@pytest.mark.parametrize("mode", ["batch", "automatic"])
def test_a_job_that_ends_in_batch_needs_no_checkpoint_folder(mode: str) -> None:
    sources = {"flights": SMALLEST_JOB["sources"]["flights"] | {"bounded": True}}
    spec = job(execution={"runtime-mode": mode}, sources=sources)
    assert spec.execution.checkpointing.dir is None
    assert spec.chosen_mode is RuntimeMode.BATCH
