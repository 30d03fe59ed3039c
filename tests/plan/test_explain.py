"""The plan in words: what `explain` says of windows, watermarks, process functions and outputs. No Spark: the plan is
built here from the step and the columns that Spark would find (tests/cli/test_commands.py has it from a job file).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.config import KeyedAggregateStep, ProcessStep
from mixedmode.config.graph import MAIN
from mixedmode.job import Job, Sink, Source, side_output
from mixedmode.keys import KeySchema
from mixedmode.operators.process import PROCESS_FUNCTION, ProcessOperator
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.explain_order import order_lines
from mixedmode.plan.job_plan import JobPlan, ResultPlan, SourceRows
from mixedmode.plan.keyed_operators import StepColumns, aggregate_operator, expressions_of
from mixedmode.plan.reads import Reads, SqlText
from mixedmode.plan.side_outputs import DEAD_LETTER, LATE
from mixedmode.plan.stages import KeyedStage
from mixedmode.process import Context, KeyedProcessFunction, ListState, MapState, Record, ReducingState, Ttl, ValueState
from mixedmode.testing.local_plan import local_plan
from mixedmode.time import Strategy

READS = Reads(("clicks",), sources=("clicks",), upstream=frozenset({"clicks"}))
COLUMNS: Mapping[str, pa.DataType] = {"k": pa.string(), "v": pa.int64(), "at": pa.timestamp("us", "UTC")}
FIELDS = tuple(pa.field(name, data_type) for name, data_type in COLUMNS.items())
NOT_BELIEVED = "times more than 1d ahead of the clock do not move it"


class Visits(KeyedProcessFunction):
    """One state of each kind that is told in its own way."""

    count = ValueState(int, default=0)
    pages = ListState(str)
    longest = ReducingState(float, reduce=max)
    by_page = MapState(str, int, ttl=Ttl("7d"))

    def process_element(self, record: Record, context: Context) -> Iterator[Record]:
        yield {"k": record["k"], "n": self.count.value}


def job(*, mode: str = "mixed", source: Mapping[str, Any] | None = None, **settings: Any) -> Job:
    given = {"event_time": "at", "out_of_orderness": "1h", **(source or {})}
    defaults: dict[str, Any] = {"mode": mode, "checkpoint_dir": "/c", "parallelism": 1, "max_parallelism": 4}
    return Job("visits", sources={"clicks": Source.parquet("/in", **given)}, **{**defaults, **settings})


def stage_of(step: KeyedAggregateStep | ProcessStep) -> KeyedStage:
    """The stage as analysis would make it of input with COLUMNS."""
    keys = tuple(pa.field(name, COLUMNS[name]) for name in step.key_by)
    operator: Any
    if isinstance(step, ProcessStep):
        arguments: Mapping[str, pa.DataType] = COLUMNS
        operator = ProcessOperator(
            operator_id="process-1",
            function=PROCESS_FUNCTION.named(step.process, step.args),
            key_schema=KeySchema(keys),
            record_fields=FIELDS,
            output_fields=(pa.field("k", pa.string()), pa.field("n", pa.int64())),
            function_outputs=dict.fromkeys(step.outputs, FIELDS[:2]),
            on_error=step.on_error,
        )
    else:
        arguments = {text: COLUMNS[text] for text in expressions_of(step)}
        given = StepColumns(keys, arguments, has_event_time=True, is_changelog=False)
        operator = aggregate_operator(step, given, lambda *path: str(path))
    late = FIELDS if isinstance(step, KeyedAggregateStep) and step.late is not None else ()
    return KeyedStage(
        operator_id="process-1" if isinstance(step, ProcessStep) else "aggregate-1",
        reads=READS,
        key_fields=keys,
        arguments=tuple(arguments),
        argument_types=tuple(arguments.values()),
        event_time="at",
        is_changelog=False,
        operator=operator,
        identity={},
        late_fields=late,
    )


def explained(job: Job, *, sql: str = "", source_rows: SourceRows | None = SourceRows()) -> list[str]:  # noqa: B008
    """The lines of a job of one keyed step, and maybe sql after it."""
    spec = job.write(Sink.parquet("/out")).spec
    (step,) = (step for step in spec.steps if isinstance(step, KeyedAggregateStep | ProcessStep))
    stage = stage_of(step)
    sinks: dict[str, Any] = {}
    if isinstance(step, KeyedAggregateStep) and step.late is not None:
        sinks[stage.output_of(LATE)] = step.late
    if isinstance(step, ProcessStep):
        sinks |= step.outputs
        if step.dead_letter is not None:
            sinks[stage.output_of(DEAD_LETTER)] = step.dead_letter
    watermark = spec.sources["clicks"].watermark
    strategy = Strategy(1000 * watermark.out_of_orderness_ms, watermark.idle_timeout_ms, watermark.max_ahead_ms)
    plan = JobPlan(
        stages=(stage,),
        results={
            MAIN: ResultPlan(
                Reads(
                    ("sql-2",), (SqlText(sql, {"previous": stage.operator_id}, "sql-2"),), stages=(stage.operator_id,)
                )
                if sql
                else Reads((stage.operator_id,), stages=(stage.operator_id,)),
                stage.operator.output_fields,
                tuple(field.name for field in stage.operator.output_key),
            )
        },
        event_times={"clicks": "at"},
        sources_read=("clicks",),
        strategies={"clicks": strategy},
        side_sinks=sinks,
        source_rows=source_rows,
    )
    return explain_plan(spec, plan, cores=1).splitlines()


def test_a_source_that_is_read_twice_says_why() -> None:
    windowed = job().key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    said = "  read twice  the second time for event times alone: the steps do not get every record as it is"
    assert said in explained(windowed, source_rows=None)
    assert said not in explained(windowed)


def test_a_windowed_job_is_told_from_its_watermark_to_its_late_records() -> None:
    keyed = job(source={"idle_timeout": "10m", "partition_column": "k"}).key_by("k")
    windowed = keyed.window(tumbling="1h", allowed_lateness="2h", early_results_every="10s", late=Sink.json("/late"))
    assert explained(windowed.aggregate(n="count(*)", s="sum(v)")) == [
        "visits: mixed mode",
        "source clicks: parquet /in",
        "  event time  at, watermark 1h behind the newest",
        f"  watermark   the least over the values of k; silent for 10m, it holds nothing back; {NOT_BELIEVED}",
        "stage 1: aggregate-1",
        "  exchange    by key (k string), Arrow blocks, combined per key and window before the shuffle, 4 key groups",
        "  key groups  subtask 0 [0, 4)",
        "  windows     tumbling, 1h; emitted when the watermark reaches their end",
        "  late        up to 2h after its end a record changes a window; later ones go to the sink aggregate-1-late",
        "  early       open windows that have changed are emitted every 10s while live",
        "  computes    window_start timestamp[us, tz=UTC], window_end timestamp[us, tz=UTC], n int64, s int64",
        "  state       5 columns per key and window",
        "  backlog     sorted strategy, single-key backend; (key, state) pairs move to RocksDB as sorted runs",
        "  live        streaming strategy, RocksDB state",
        "  fires       in the backlog up to its greatest watermark; the rest live, as the watermark moves",
        "sink: parquet /out",
        "  upserts     one row per changed key (window_start, window_end, k) and epoch, with _op and _epoch",
        "sink aggregate-1-late: json /late",
        "  rows        records that came too late for all of their windows; each with _epoch",
        "committed",
        "  backlog     nothing before the flip; one manifest at the flip: state runs, offsets, outputs",
        "  live        one manifest every 1s in which there is something new",
        "  clock       counts as new once a second, because something here goes by it",
        "  outputs are published after their manifest, under names that a repeat of the epoch uses again",
    ]


def test_a_process_job_is_told_with_its_function_its_state_and_its_outputs() -> None:
    steps = (
        job()
        .key_by("k")
        .process(
            Visits,
            output="k string, n long",
            outputs={"seen": side_output(Sink.console(), schema="k string, v long")},
            on_error="dead-letter",
            dead_letter=Sink.json("/failed"),
        )
    )
    lines = explained(steps, sql="SELECT k FROM previous\nWHERE n > 1")
    assert lines[2:4] == [
        "  event time  at, watermark 1h behind the newest",
        f"  watermark   while silent, it holds the job's back; {NOT_BELIEVED}",
    ]
    start = lines.index("stage 1: process-1")
    assert [line for line in lines[start:] if not line.startswith("  clock")][:-4] == [
        "stage 1: process-1",
        "  exchange    by key (k string), Arrow blocks, 4 key groups",
        "  key groups  subtask 0 [0, 4)",
        "  function    tests.plan.test_explain:Visits, the records of a key in order of event time",
        "  on error    dead-letter: what failed is left out, and goes to an output of its own",
        "  computes    k string, n int64",
        "  state       by_page map [str, int] for 7d; count int; longest reducing float; pages list[str]; timers",
        "  backlog     sorted strategy, single-key backend; (key, state) pairs move to RocksDB as sorted runs",
        "  live        streaming strategy, RocksDB state",
        "  fires       in the backlog up to its greatest watermark; the rest live, as the watermark moves",
        "after the last stage",
        "  sql         SELECT k FROM previous WHERE n > 1",
        "              on Arrow",
        "sink: parquet /out",
        "  rows        each with _op and _epoch",
        "sink seen: console standard output",
        "  rows        k string, v int64; each with _epoch",
        "sink process-1-dead-letter: json /failed",
        "  rows        records on which the function failed, and the error; each with _epoch",
    ]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (
            {"tumbling": "1d", "offset": "6h", "time_zone": "Europe/Berlin"},
            "tumbling, 1d, offset 6h, days of Europe/Berlin",
        ),
        ({"sliding": "1h", "slide": "10m"}, "sliding, 1h every 10m"),
        ({"cumulating": "1d", "step": "1h"}, "cumulating, up to 1d by 1h"),
    ],
)
def test_windows_are_told_as_they_were_set(window: dict[str, Any], expected: str) -> None:
    lines = explained(job().window(**window).aggregate(n="count(*)"))
    assert f"  windows     {expected}; emitted when the watermark reaches their end" in lines
    assert "  late        records of windows that were emitted are counted and dropped" in lines
    exchange = "without a key, so all to one subtask, Arrow blocks, combined per key and window before the shuffle"
    assert f"  exchange    {exchange}, 4 key groups" in lines


def test_sessions_and_count_windows_have_words_of_their_own() -> None:
    sessions = explained(job().key_by("k").window(session="30m").aggregate(n="count(*)"))
    assert "  windows     sessions, gap 30m; emitted when the watermark is past their end" in sessions
    assert "  state       2 columns per key and session" in sessions
    counted = explained(job().key_by("k").window(count=100).aggregate(n="count(*)"))
    assert "  windows     every 100 records of a key; emitted when full, whatever the watermark" in counted
    assert "  state       5 columns per key" in counted
    assert not [line for line in counted if line.startswith(("  late", "  fires", "  watermark"))]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"end_of_key_watermark": "max"},
            "every window and event-time timer in the backlog; live as the watermark moves",
        ),
        ({"mode": "streaming"}, "as the watermark moves; everything when the input ends"),
        ({"mode": "batch"}, "everything, at the end of the input"),
    ],
)
def test_what_fires_when_depends_on_the_mode(settings: dict[str, Any], expected: str) -> None:
    windowed = job(**settings).key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    assert f"  fires       {expected}" in explained(windowed)


def test_what_does_not_go_by_the_watermark_does_not_tell_of_it() -> None:
    plain = explained(job().key_by("k").aggregate(n="count(*)"))
    assert not [line for line in plain if line.startswith(("  watermark", "  fires", "  windows", "  late"))]
    assert "  state       1 column per key" in plain
    believing = explained(job(source={"max_ahead": "none"}).key_by("k").aggregate(n="count(*)"))
    expected = "while silent, it holds the job's back; times ahead of the clock move it"
    assert f"  watermark   {expected}" in believing, "what was set is told all the same"


def test_the_subtasks_of_a_step_of_its_own_and_of_the_backlog_are_told() -> None:
    keyed = job(max_parallelism=9).key_by("k", parallelism=2)
    assert key_groups(keyed.aggregate(n="count(*)")) == ["  key groups  subtask 0 [0, 5), subtask 1 [5, 9)"]
    keyed = job(max_parallelism=9, backlog_parallelism=3).key_by("k", parallelism=2)
    assert key_groups(keyed.aggregate(n="count(*)")) == [
        "  key groups  subtask 0 [0, 5), subtask 1 [5, 9)",
        "              in backlog subtask 0 [0, 3), subtask 1 [3, 6), subtask 2 [6, 9)",
    ]


def test_what_the_autoscaler_may_choose_is_told() -> None:
    keyed = job(autoscaler={"max_parallelism": 4}).key_by("k")
    assert key_groups(keyed.aggregate(n="count(*)"))[1:] == [
        "              once live, the autoscaler chooses: 1 to 4 subtasks"
    ]
    keyed = job(autoscaler={}).key_by("k")
    assert key_groups(keyed.aggregate(n="count(*)"))[1:] == [
        "              once live, the autoscaler chooses: 1 to as many as cores subtasks"
    ]


def key_groups(steps: Job) -> list[str]:
    return [line for line in explained(steps) if line.startswith(("  key groups", " " * 14))]


MEASURED = (
    "  event times how far the sources have come is measured by tasks of their own; the steps begin when that is known"
)


def test_the_order_of_a_graph_says_what_runs_at_the_same_time() -> None:
    schema = {"schema": "k string, v bigint, at timestamp"}
    given = job(parallelism=2, source=schema)
    clicks = given.source("clicks")
    hourly = clicks.key_by("k", name="hourly").window(tumbling="1h").aggregate(n="count(*)")
    totals = clicks.key_by("k", name="totals").aggregate(n="count(*)")
    best = hourly.key_by("window_end", name="best").aggregate(most="max(n)")
    both = hourly.join(totals, on="k", name="both", select=["left.k", "left.window_end", "right.n"])
    outputs = {"best": best, "both": both}
    for name, stream in outputs.items():
        key = ["k", "window_end"] if name == "both" else None
        given = given.output(name, stream, Sink.parquet(f"/{name}"), key=key)
    plan = local_plan(given.spec, given.where)
    lines = explain_plan(given.spec, plan, cores=2).splitlines()
    assert "  begins      at once: hourly and totals, at the same time" in lines[: lines.index("committed")]
    raw = ResultPlan(READS, FIELDS, ())
    assert list(order_lines(replace(plan, results={**plan.results, "raw": raw}))) == [
        "order in an epoch",
        MEASURED,
        "  begins      at once: hourly, totals and output raw, at the same time",
        "  begins      when hourly has ended: best",
        "  begins      when hourly and totals have ended: both",
        "  begins      when both has ended: upsert-both",
    ]
    chain = job(source=schema).key_by("k").aggregate(n="count(*)").write(Sink.parquet("/out"))
    assert "order in an epoch" not in explain_plan(chain.spec, local_plan(chain.spec, chain.where), cores=2)
