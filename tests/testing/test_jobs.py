"""run_graph: whole jobs in a test, without Spark, against plain Python; and what it refuses."""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, side_output
from mixedmode.process import KeyedProcessFunction
from mixedmode.testing import JobOutputs, run_graph
from mixedmode.testing.local_plan import needs_spark
from tests.differential.stories import local_cases
from tests.differential.test_time_in_chains import Step, chains, expected, told
from tests.differential.timelines import MODES, Case, Mode, cases
from tests.harness import SPARK

MINUTE = 60_000_000
SCHEMA = "customer string, at timestamp, amount bigint"


def orders(*, schema: str | None = SCHEMA, **arguments: Any) -> Job:
    columns: Any = {} if schema is None else {"schema": schema}
    source = Source.parquet("orders", **columns, event_time="at", out_of_orderness="1m")
    return Job("orders", sources={"orders": source}, mode="batch", **arguments)


def per_window(job: Job) -> Job:
    """The best customer of each ten minutes."""
    windowed = job.key_by("customer").window(tumbling="10m", late=Sink.parquet("late"))
    return windowed.aggregate(total="sum(amount)").key_by("window_start", "window_end").top(1, order_by=["total desc"])


def order(customer: str, minute: int, amount: int) -> dict[str, Any]:
    return {"customer": customer, "at": minute * MINUTE, "amount": amount}


ROWS = [order("a", 1, 3), order("b", 2, 4), order("a", 5, 2), order("b", 12, 1), order("c", 13, 7), order("a", 31, 1)]


def best(outputs: JobOutputs) -> list[tuple[int, str, int]]:
    found = []
    for row in outputs.table():
        assert set(row) == {"window_start", "window_end", "window_time", "rank", "customer", "total"}
        found.append((row["window_start"].minute, row["customer"], row["total"]))
    return found


@given(case=cases(), chain=chains())
@local_cases(0.015)
def test_whole_jobs_equal_plain_python_in_every_mode(case: Case, chain: list[Step]) -> None:
    source = Source.parquet(
        "in",
        schema="k string, v bigint, n bigint, t timestamp",
        event_time="t",
        out_of_orderness=f"{case.bound_ms}ms",
    )
    job = Job("chain", sources={"t": source}, mode="batch", parallelism=case.parallelism, max_parallelism=8)
    for step in chain:
        job = step.add(job)
    for mode in MODES:
        first, live = pieces(case, mode)
        outputs = run_graph(job, first, live=live)
        assert told(outputs.table()) == expected(case, chain), mode
        assert outputs.records_late == 0


def pieces(case: Case, mode: Mode) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    live = [{"t": [event.row | {"n": 1} for event in events]} for events in case.epochs(mode)]
    count = {"mixed": case.flip, "streaming": 0, "batch": len(case.events)}[mode]
    backlog = {"t": [event.row | {"n": 1} for event in case.events[:count]]}
    return (None if mode == "streaming" else backlog), (live or [{}] if mode != "batch" else [])


def test_a_job_without_a_sink_runs_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    job = per_window(orders())
    assert best(run_graph(job, {"orders": ROWS[:3]}, live=[{"orders": ROWS[3:]}])) == BEST
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".private"]
    assert left == []


BEST = [(0, "a", 5), (10, "c", 7), (30, "a", 1)]


def test_the_flip_and_the_cuts_change_no_row_of_the_table() -> None:
    job = per_window(orders())
    batch = run_graph(job, {"orders": ROWS})
    assert best(batch) == BEST
    for flip in range(len(ROWS)):
        mixed = run_graph(job, {"orders": ROWS[:flip]}, live=[{"orders": [row]} for row in ROWS[flip:]])
        assert mixed.table() == batch.table()
    assert run_graph(job, live=[{"orders": ROWS}]).table() == batch.table()


def test_late_records_are_found_by_the_name_of_their_output() -> None:
    late = order("z", 0, 100)
    outputs = run_graph(per_window(orders()), {"orders": ROWS}, live=[{"orders": [late]}])
    assert best(outputs) == BEST
    expected = [{"customer": "z", "at": datetime(1970, 1, 1, tzinfo=UTC), "amount": 100}]
    assert outputs["late"] == outputs["aggregate-1-late"] == expected
    assert (outputs.records_late, list(outputs)) == (1, ["aggregate-1-late"])
    with pytest.raises(InvalidJobError, match=r"no output 'lat'\..*Beside the main output, it has aggregate-1-late"):
        outputs["lat"]


def test_windows_fire_and_keyed_rows_change_epoch_by_epoch() -> None:
    job = orders().key_by("customer").aggregate(total="sum(amount)")
    outputs = run_graph(job, {"orders": ROWS[:1]}, live=[{"orders": [order("a", 2, 4)]}, {}])
    assert [(row["total"], row["_op"]) for row in outputs.changes()] == [(3, "insert"), (7, "update")]
    assert outputs.table() == [{"customer": "a", "total": 7}]


class Large(KeyedProcessFunction):
    """Sends large orders to a side output, fails on negative ones, and emits the others."""

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        if record["amount"] < 0:
            msg = "negative"
            raise ValueError(msg)
        if record["amount"] > 5:
            context.output("large", {"amount": record["amount"]})
        else:
            yield {"who": record["customer"], "clock": context.processing_time}


def test_an_output_with_a_name_is_asked_for_by_its_name() -> None:
    job = orders()
    counts = job.source("orders").key_by("customer").aggregate(n="count(*)")
    outputs = run_graph(job.output("counts", counts, Sink.parquet("out")), {"orders": []})
    assert outputs.table("counts") == []
    said = r"run_graph: the outputs of this job have names\. Give one\. Outputs here: counts\. found=''"
    for rows_of in (outputs.table, outputs.changes):
        with pytest.raises(InvalidJobError, match=said):
            rows_of()


def test_the_columns_of_an_output_keep_their_order_whatever_its_key_is() -> None:
    most = orders().key_by("customer").aggregate(total="sum(amount)", latest="max(at)")
    outputs = run_graph(most.write(Sink.console(), key=["latest"]), {"orders": ROWS})
    assert [list(row) for row in outputs.table()] == [["customer", "total", "latest"]] * 3


def test_the_longest_names_of_steps_and_outputs_are_no_longer_than_a_disk_allows() -> None:
    step, output = "s" * 200, "o" * 200
    job = orders(parallelism=2, max_parallelism=32768)
    keyed = job.source("orders").key_by("customer", name=step)
    totals = keyed.window(tumbling="10m", late=Sink.parquet("late")).aggregate(total="sum(amount)")
    outputs = run_graph(job.output(output, totals, Sink.parquet("out")), {"orders": ROWS}, live=[{"orders": ROWS}] * 4)
    assert len(outputs.table(output)) == 5
    assert outputs.records_late == 20


def test_side_outputs_dead_letters_and_the_clock() -> None:
    job = orders().key_by("customer")
    with_large = job.process(
        Large,
        output="who string, clock bigint",
        outputs={"large": side_output(Sink.parquet("large"), schema="amount bigint")},
        on_error="dead-letter",
        dead_letter=Sink.parquet("dead"),
    )
    rows = [order("a", 1, 9), order("b", 1, -1), order("c", 1, 2)]
    outputs = run_graph(with_large, {"orders": pa.Table.from_pylist(rows[:1])}, live=[{"orders": rows[1:]}], clock=5000)
    assert outputs["large"] == [{"amount": 9}]
    (failed,) = outputs["dead-letter"]
    assert "the process function raised ValueError: negative" in failed["error"]
    assert outputs.table() == [{"who": "c", "clock": 5000}]


def refused() -> Iterator[tuple[str, Callable[[], object], str]]:
    job, good = per_window(orders()), {"orders": ROWS}
    yield (
        "source",
        lambda: run_graph(job, {"order": ROWS}),
        r"inputs: the job has no source order\. Did you mean orders",
    )
    yield "column", lambda: run_graph(job, {"orders": [{"custmer": "a"}]}), r"orders: row 0 .*no column custmer\. Did"
    yield (
        "type",
        lambda: run_graph(job, {"orders": [order("a", 1, 2) | {"amount": "x"}]}),
        r"the column `amount` is int64",
    )
    yield "table", lambda: run_graph(job, {"orders": pa.table({"customer": ["a"]})}), r"does not have the columns"
    yield "form", lambda: run_graph(job, [ROWS]), r"the inputs of an epoch are \{source: rows\}.*found=list"  # type: ignore[arg-type]
    yield "nothing", lambda: run_graph(job), r"there is no input. Pass `inputs`, `live`, or both"
    yield (
        "schema",
        lambda: run_graph(per_window(orders(schema=None)), good),
        r"does not declare its columns.*Add schemas=",
    )
    yield "no step", lambda: run_graph(orders(), good), r"the job has no step yet"
    yield (
        "step",
        lambda: run_graph(orders().key_by("custmer").aggregate(n="count(*)"), good),
        r"steps\[0\]\.key-by: there is no column custmer\. Did you mean customer\?",
    )
    named = r"steps\[0\]\.key-by: there is no column customer, at\. In key-by, an expression has a name"
    yield "key", lambda: run_graph(orders().key_by("customer, at").aggregate(n="count(*)"), good), named
    yield (
        "argument",
        lambda: run_graph(orders().key_by("customer").aggregate(n="sum(price)"), good),
        r"steps\[0\]\.aggregate\.n: there is no column price",
    )
    windows = orders().key_by("customer").window(tumbling="10m").aggregate(total="sum(amount)")
    yield (
        "name of the event time",
        lambda: run_graph(windows.key_by("window_start", "window_end").aggregate(Window_Time="count(*)"), good),
        r"steps\[1\]\.aggregate: the rows of a window have this name for their event time already.*found=Window_Time",
    )
    ranks = {"schema": "customer string, at timestamp, Rank int"}
    yield (
        "name of the rank",
        lambda: run_graph(orders(**ranks).key_by("customer").top(1, order_by="at"), {}),
        r"steps\[0\]\.top: the step emits a column of this name.*column=Rank",
    )
    for name in ("_op", "_all", "_weight", "_epoch"):
        keyed = orders(schema=f"{name} boolean, customer string, at timestamp")
        yield (
            f"key {name}",
            partial(run_graph, keyed.key_by(name).aggregate(n="count(*)"), {}),
            rf"steps\[0\]\.key-by: this name is kept for the output.*column={name}",
        )
        for kind, passed_on in {
            "top": keyed.key_by("customer").top(1, order_by="at"),
            "deduplicate": keyed.key_by("customer").deduplicate(keep="any"),
        }.items():
            message = rf"steps\[0\]\.{kind}: this name is kept for the output.*column={name}"
            yield f"{name} in {kind}", partial(run_graph, passed_on, {}), message
    yield (
        "argument type",
        lambda: run_graph(orders().key_by("amount").aggregate(n="sum(customer)"), good),
        r"steps\[0\]\.aggregate\.n: sum needs a number",
    )


@pytest.mark.parametrize(("what", "call", "message"), list(refused()))
def test_wrong_inputs_and_jobs_are_refused(what: str, call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        call()


def test_schemas_of_the_call_serve_sources_without_any() -> None:
    outputs = run_graph(per_window(orders(schema=None)), {"orders": ROWS}, schemas={"orders": SCHEMA})
    assert best(outputs) == BEST


def test_columns_may_be_spelled_in_any_case() -> None:
    job = orders().key_by("Customer").aggregate(total="sum(AMOUNT)")
    totals = Counter[str]()
    for row in ROWS:
        totals[row["customer"]] += row["amount"]
    assert run_graph(job, {"orders": ROWS}).table() == [{"Customer": k, "total": totals[k]} for k in sorted(totals)]


def test_a_job_of_keyed_steps_starts_no_jvm() -> None:
    program = (
        "from mixedmode import Job, Source\n"
        "from mixedmode.testing import run_graph\n"
        "job = Job('j', sources={'t': Source.parquet('in', schema='k string')}, mode='batch')\n"
        "job = job.key_by('k').aggregate(n='count(*)')\n"
        "assert run_graph(job, {'t': [{'k': 'a'}]}).table() == [{'k': 'a', 'n': 1}]\n"
        "from pyspark import SparkContext\n"
        "print(SparkContext._gateway)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_a_job_with_sql_gives_the_same_on_spark(spark: SparkSession) -> None:
    job = per_window(orders(spark=SPARK).sql("SELECT customer, at, amount FROM orders WHERE customer <> 'x'"))
    rows = [*ROWS, order("x", 40, 9)]
    late = order("z", 0, 100)
    outputs = run_graph(job, {"orders": rows[:3]}, live=[{"orders": rows[3:]}, {"orders": [late]}])
    here = run_graph(per_window(orders()), {"orders": ROWS[:3]}, live=[{"orders": ROWS[3:]}, {"orders": [late]}])
    assert (outputs.table(), outputs["late"], outputs.records_late) == (here.table(), here["late"], here.records_late)
    assert best(run_graph(job, {"orders": rows})) == BEST
    with pytest.raises(InvalidJobError, match="whose clock cannot be set"):
        run_graph(job, {"orders": rows}, clock=0)


@pytest.mark.parametrize("name", ["sql.session.timeZone", "spark.sql.session.timeZone"])
def test_a_job_in_another_time_zone_runs_on_spark(name: str) -> None:
    """Its dates and local times are those of the zone. Here they were those of UTC, and windows were others."""
    assert needs_spark(per_window(orders(spark={name: "Europe/Berlin"})))
    assert not needs_spark(per_window(orders(spark={name: "UTC"})))
    assert not needs_spark(per_window(orders()))
