"""Fingerprints as they are stored: pinned for every kind of step, window and aggregate.

The golden file is what jobs have stored. If this test fails because a class, a field or a default was changed, the
change has to leave the fingerprint as it is. A new kind of step gets a line: `python -m tests.plan.test_fingerprint`.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.changes import changes, fingerprint_text
from mixedmode.config import ApplyChangesStep, DeduplicateStep, KeyedAggregateStep, OverStep, TopStep
from mixedmode.config.calls import AGGREGATE_FUNCTIONS
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.apply_changes_operators import apply_changes_identity, apply_changes_operator, row_columns
from mixedmode.plan.fingerprint import (
    Fingerprint,
    aggregate_fingerprint,
    async_map_fingerprint,
    of_list,
    of_sources,
    step_fingerprint,
)
from mixedmode.plan.keyed_operators import StepColumns, aggregate_operator, expressions_of
from mixedmode.plan.over_operators import over_identity
from mixedmode.plan.ranked_operators import RankedColumns, orders_of, ranked_identity
from mixedmode.plan.reads import Reads, SqlText
from mixedmode.plan.stages import ALL_ROWS, KeyedStage

GOLDEN = Path(__file__).parent.parent / "golden" / "fingerprints.json"
COLUMNS = {
    "n": pa.int64(),
    "d": pa.decimal128(10, 2),
    "x": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "n > 0": pa.bool_(),
}
KEYS = {"k": pa.string(), "g": pa.int32()}
CALLS = {
    "count": ("count(*)", "count(n)", "count(distinct s)"),
    "sum": ("sum(n)", "sum(d)", "sum(x)", "sum(distinct d)"),
    "avg": ("avg(n)", "avg(d)", "avg(x)", "avg(distinct n)"),
    "min_by": ("min_by(s, n)",),
    "max_by": ("max_by(n, at)",),
    "mode": ("mode(s)", "mode() within group (order by n desc)"),
    "percentile_disc": ("percentile_disc(n, 0.5)", "percentile_disc(0.5) within group (order by n desc)"),
    "percentile": ("percentile(n, 0.5)",),
    "count_if": ("count_if(b)",),
    **{
        f"regr_{name}": (f"regr_{name}(x, n)",)
        for name in ["avgx", "avgy", "count", "intercept", "r2", "slope", "sxx", "sxy", "syy"]
    },
    **{name: (f"{name}(x, n)",) for name in ("corr", "covar_pop", "covar_samp")},
    "bool_and": ("bool_and(b)",),
    "bool_or": ("bool_or(b)",),
    "approx_percentile": ("approx_percentile(n, 0.5)", "approx_percentile(x, 0.5, 1000)"),
    "approx_count_distinct": ("approx_count_distinct(s)", "approx_count_distinct(s, 0.01)"),
    "collect_list": ("collect_list(s, 9)",),
    "collect_set": ("collect_set(s, 9)",),
}
WINDOWS: Mapping[str, dict[str, Any]] = {
    "tumbling": {"tumbling": "1h"},
    "tumbling, offset": {"tumbling": "1h", "offset": "10m"},
    "tumbling, time zone": {"tumbling": "1d", "time_zone": "Europe/Berlin"},
    "sliding": {"sliding": "1h", "slide": "10m"},
    "cumulating": {"cumulating": "1d", "step": "1h"},
    "session": {"session": "30m"},
    "count": {"count": 100},
    "late and early": {"tumbling": "1h", "allowed_lateness": "5m", "early_results_every": "10s"},
}


def step_of(job: Job) -> KeyedAggregateStep:
    step = job.write(Sink.parquet("/out")).spec.steps[-1]
    assert isinstance(step, KeyedAggregateStep), step
    return step


def source() -> Job:
    return Job("fingerprints", sources={"t": Source.json("/in", schema="k string", event_time="at")}, mode="batch")


def of(step: KeyedAggregateStep, *, is_changelog: bool = False) -> Fingerprint:
    keys = tuple(pa.field(name, KEYS[name]) for name in step.key_by)
    arguments = _types(step)
    columns = StepColumns(keys, arguments, has_event_time=True, is_changelog=is_changelog)
    operator = aggregate_operator(step, columns, lambda *path: str(path))
    return aggregate_fingerprint(step, keys, arguments, operator)


def _types(step: KeyedAggregateStep) -> dict[str, pa.DataType]:
    return {text: COLUMNS[text] for text in expressions_of(step)}


def fingerprints() -> Iterator[tuple[str, Fingerprint]]:
    """(what it is of, fingerprint) of every kind of step."""
    for function in sorted(AGGREGATE_FUNCTIONS):
        for call in CALLS.get(function, (f"{function}(n)",)):
            yield f"aggregate {call}", of(step_of(source().key_by("k").aggregate(a=call)))
    for name, window in WINDOWS.items():
        yield f"window {name}", of(step_of(source().key_by("k").window(**window).aggregate(n="count(*)")))
    filtered = source().key_by("k", "g").aggregate(a="sum(n) filter (where n > 0)", b="max(x)")
    yield "two keys, a filter", of(step_of(filtered))
    yield "no key", of(step_of(source().window(tumbling="1h").aggregate(n="count(*)")))
    yield "retractions", of(step_of(source().key_by("k").aggregate(n="sum(n)")), is_changelog=True)
    yield "rows that are kept", of(step_of(source().key_by("k").aggregate(n="max(d)")), is_changelog=True)
    yield "process", step_fingerprint("process", [pa.field("k", pa.string())])
    yield "async map", async_map_fingerprint([pa.field("k", pa.string())], None)
    yield "async map that remembers", async_map_fingerprint([pa.field("k", pa.string())], [pa.field("n", pa.int64())])
    yield "upsert", step_fingerprint("upsert")
    yield from ranked_fingerprints()
    yield from over_fingerprints()
    yield from apply_changes_fingerprints()
    yield "map that keeps a list", of_list()
    yield "sources", of_sources(["b", "a"], {}, has_clock=False)
    yield "a source and the clock", of_sources(["a"], {}, has_clock=True)


def ranked_fingerprints() -> Iterator[tuple[str, Fingerprint]]:
    """(what it is of, fingerprint) of steps with top and deduplicate."""
    keyed = source().key_by("k")
    jobs = {
        "top": keyed.top(3, order_by=["n desc", "s nulls last"]),
        "top, another n": keyed.top(4, order_by=["n desc", "s nulls last"]),
        "top, another order": keyed.top(3, order_by=["n", "s nulls last"]),
        "deduplicate first": keyed.deduplicate(keep="first", tie_break="n"),
        "deduplicate first within": keyed.deduplicate(keep="first", tie_break="n", within="1d"),
        "deduplicate last": keyed.deduplicate(keep="last", tie_break="n"),
        "deduplicate any": keyed.deduplicate(keep="any"),
    }
    for name, job in jobs.items():
        yield name, of_ranked(job, is_changelog=False)
    yield "top of a changelog", of_ranked(jobs["top"], is_changelog=True)


def of_ranked(job: Job, *, is_changelog: bool) -> Fingerprint:
    step = job.write(Sink.parquet("/out")).spec.steps[-1]
    assert isinstance(step, TopStep | DeduplicateStep), step
    row = {name: pa.field(name, COLUMNS[name]) for name in ("n", "s", "at")}
    orders = orders_of(step, "at")
    columns = RankedColumns(
        (pa.field("k", pa.string()),), row, [(by.expression, COLUMNS[by.expression]) for by in orders]
    )
    return ranked_identity(step, columns, orders, is_changelog=is_changelog)


def over_fingerprints() -> Iterator[tuple[str, Fingerprint]]:
    """(what it is of, fingerprint) of steps with over."""
    keyed = source().key_by("k")
    frame = "rows between 2 preceding and current row"
    jobs = {
        "over": keyed.over(a="lag(n)", b="count(*)", tie_break="s"),
        "over, another tie-break": keyed.over(a="lag(n)", b="count(*)", tie_break="n"),
        "over, another call": keyed.over(a="lag(n, 2)", b="count(*)", tie_break="s"),
        "over, another column": keyed.over(c="lag(n)", b="count(*)", tie_break="s"),
        "over, a frame": keyed.over(a="lag(n)", b=f"count(*) {frame}", tie_break="s"),
        "over, a span": keyed.over(a="lag(n)", b="count(*) range 1h preceding"),
        "over, all rows": source().over(a="lag(n)", b="count(*)", tie_break="s"),
    }
    row = {name: pa.field(name, COLUMNS[name]) for name in ("n", "s", "at")}
    for name, job in jobs.items():
        step = job.write(Sink.parquet("/out")).spec.steps[-1]
        assert isinstance(step, OverStep), step
        keys = (pa.field("k", pa.string()),) if step.key_by else (ALL_ROWS,)
        ties = [(column, COLUMNS[column]) for column in step.over.tie_break]
        yield name, over_identity(step, RankedColumns(keys, row, ties))


def apply_changes_fingerprints() -> Iterator[tuple[str, Fingerprint]]:
    """(what it is of, fingerprint) of steps with apply-changes."""
    keyed = source().key_by("k")
    jobs = {
        "apply-changes": keyed.apply_changes(sequence_by="n"),
        "apply-changes, deletes": keyed.apply_changes(sequence_by="n", delete_when="s = 'd'"),
        "apply-changes, another sequence": keyed.apply_changes(sequence_by=["at", "n"]),
        "apply-changes, fewer columns": keyed.apply_changes(sequence_by="n", columns=["s"]),
        "apply-changes, history": keyed.apply_changes(sequence_by="n", history=True),
        "apply-changes, some tracked": keyed.apply_changes(sequence_by="n", history=True, track="s"),
        "apply-changes, none tracked": keyed.apply_changes(
            sequence_by="n", history=True, track_except=["n", "s", "at"]
        ),
    }
    for name, job in jobs.items():
        step = job.write(Sink.parquet("/out")).spec.steps[-1]
        assert isinstance(step, ApplyChangesStep), step
        row = {name: pa.field(name, COLUMNS[name]) for name in row_columns(step, ["k", "n", "s", "at"], where)}
        order = [(text, COLUMNS.get(text, pa.bool_())) for _, text in step.apply_changes.expressions]
        columns = RankedColumns((pa.field("k", pa.string()),), row, order)
        yield name, apply_changes_identity(columns, apply_changes_operator(step, columns, where))


def where(*place: str | int) -> str:
    return ".".join(map(str, place))


def test_the_fingerprints_are_those_that_jobs_have_stored() -> None:
    golden = json.loads(GOLDEN.read_text())
    found = json.loads(json.dumps(dict(fingerprints())))
    assert found.keys() == golden.keys()
    different = {name: changes(golden[name], now) for name, now in found.items() if now != golden[name]}
    assert not different, "stored jobs would be refused"


def test_no_two_golden_steps_have_one_fingerprint() -> None:
    by_text: dict[str, list[str]] = {}
    for name, fingerprint in fingerprints():
        by_text.setdefault(fingerprint_text(fingerprint), []).append(name)
    shared = {tuple(sorted(names)) for names in by_text.values() if len(names) > 1}
    assert not shared


def test_no_name_of_a_class_or_of_a_field_of_python_is_stored() -> None:
    classes = {type(one).__name__ for one in _registers()}
    fields = {field.name for one in _registers() for field in dataclasses.fields(one) if "_" in field.name}
    assert len(classes) > 10
    assert not [name for name in classes | fields if f'"{name}"' in GOLDEN.read_text()]


def _registers() -> Iterator[Any]:
    for function in sorted(AGGREGATE_FUNCTIONS):
        for call in CALLS.get(function, (f"{function}(n)",)):
            step = step_of(source().key_by("k").aggregate(a=call))
            columns = StepColumns((pa.field("k", pa.string()),), _types(step), has_event_time=True, is_changelog=False)
            operator: Any = aggregate_operator(step, columns, lambda *path: str(path))
            yield from operator.aggregator.registers


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("sum(d)", "sum(n)", "registers[1].argument"),
        ("approx_percentile(n, 0.5)", "approx_percentile(n, 0.5, 1000)", "registers[0].k"),
        ("sum(n)", "sum(n) filter (where n > 0)", "registers[0].argument"),
    ],
)
def test_a_message_says_what_was_changed(before: str, now: str, said: str) -> None:
    old, new = (of(step_of(source().key_by("k").aggregate(a=call))) for call in (before, now))
    assert said.partition(".")[0] in changes(old, new) or said in changes(old, new)
    assert " was " in changes(old, new)
    assert changes(old, old) == ""


def test_sums_of_decimals_with_another_scale_are_other_states() -> None:
    """Their registers hold integers that mean something else."""
    step = step_of(source().key_by("k").aggregate(a="sum(d)"))
    keys = (pa.field("k", pa.string()),)
    found = []
    for scale in (2, 4):
        columns = StepColumns(keys, {"d": pa.decimal128(10, scale)}, has_event_time=True, is_changelog=False)
        operator = aggregate_operator(step, columns, lambda *path: str(path))
        found.append(aggregate_fingerprint(step, keys, columns.arguments, operator))
    assert found[0] != found[1]
    assert "scale was 2 and is 4" in changes(*found)


def test_a_stage_adds_its_event_time_and_the_sql_before_it() -> None:
    step = step_of(source().key_by("k").aggregate(a="sum(n)"))
    keys = (pa.field("k", pa.string()),)
    columns = StepColumns(keys, {"n": pa.int64()}, has_event_time=True, is_changelog=True)
    stage = KeyedStage(
        operator_id="aggregate-2",
        reads=Reads(("sql-2",), (SqlText("SELECT *\n FROM previous", {"previous": "a"}, "sql-2"),), stages=("a",)),
        key_fields=keys,
        arguments=("n",),
        argument_types=(pa.int64(),),
        event_time="at",
        is_changelog=True,
        operator=aggregate_operator(step, columns, lambda *path: str(path)),
        identity={"version": 1},
    )
    assert stage.fingerprint == {"version": 1, "sql": ["SELECT * FROM previous"], "from": ["a"]}, (
        "no register goes by time"
    )
    assert replace(stage, is_changelog=False).fingerprint == {"version": 1, "from": ["a"]}


@pytest.mark.parametrize(
    ("is_changelog", "argument", "identity", "compared"),
    [
        (True, "date(at)", {}, True),
        (True, "`at`", {}, False),
        (False, "date(at)", {}, False),
        (False, "`at`", {"condition": "left.v < right.v"}, True),
    ],
)
def test_settings_of_sql_are_compared_where_its_result_is_computed_again(
    is_changelog: bool, argument: str, identity: Fingerprint, compared: bool
) -> None:
    """Of rows that are retracted, and of stored rows that meet new ones under a condition."""
    stage = KeyedStage(
        operator_id="a-step",
        reads=Reads(("a",), stages=("a",)),
        key_fields=(),
        arguments=(argument,),
        argument_types=(pa.date32(),),
        event_time=None,
        is_changelog=is_changelog,
        operator=aggregate_operator(
            step_of(source().key_by("k").aggregate(n="count(*)")),
            StepColumns((pa.field("k", pa.string()),), {}, has_event_time=False, is_changelog=is_changelog),
            lambda *path: str(path),
        ),
        identity=identity,
        sql_settings={"sql.session.timeZone": "UTC"},
    )
    other = replace(stage, sql_settings={"sql.session.timeZone": "Asia/Tokyo"})
    said = 'spark.sql.session.timeZone was "UTC" and is "Asia/Tokyo"' if compared else ""
    assert changes(stage.fingerprint, other.fingerprint) == said


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {fingerprint_text(found)}" for name, found in fingerprints())
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
