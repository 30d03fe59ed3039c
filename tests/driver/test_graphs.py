"""Jobs that are graphs, on Spark: SQL over several inputs, changing rows beside added ones, and savepoints."""

import shutil
import socket
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.driver.phases import Until
from mixedmode.driver.restoring import restore_savepoint
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from tests.driver.functions import Meets
from tests.harness import SPARK, ManualClock, manifests, output_rows, run, write_json

Record = dict[str, Any]
ORDERS: list[list[Record]] = [
    [{"customer": f"c{i % 3}", "amount": 10 * i, "at": f"2024-01-01T0{i % 10}:00:00Z"} for i in range(12)],
    [{"customer": f"c{i % 4}", "amount": 7 * i, "at": f"2024-01-02T0{i % 10}:00:00Z"} for i in range(9)],
]
REFUNDS: list[list[Record]] = [
    [{"customer": "c1", "amount": 5, "at": "2024-01-01T05:00:00Z"}],
    [{"customer": "c9", "amount": 6, "at": "2024-01-02T05:00:00Z"}, {"customer": "c0", "amount": 1, "at": None}],
]


def job(base: Path, mode: Any, **settings: Any) -> Job:
    """Sums by customer, over both sources; sums of these sums and of the orders once more; large orders as they are."""
    columns = {"schema": "customer string, amount long, at timestamp", "event_time": "at"}
    bounded = {"bounded": True} if mode == "batch" else {}
    made = Job(
        "shop",
        sources={name: Source.json(base / name, **columns, **bounded) for name in ("orders", "refunds")},  # type: ignore[arg-type]
        mode=mode,
        checkpoint_dir=None if mode == "batch" else base / "checkpoints",
        spark=SPARK,
        **settings,
    )
    orders, refunds = made.source("orders"), made.source("refunds")
    both = orders.sql(
        "SELECT customer, -amount AS amount FROM refunds UNION ALL SELECT customer, amount FROM orders",
        others=[refunds],
        name="both",
    )
    totals = both.key_by("customer", name="totals").aggregate(total="sum(amount)", n="count(*)")
    again = totals.sql(
        "SELECT customer, total AS amount FROM totals UNION ALL SELECT upper(customer), amount FROM orders",
        others=[orders],
        name="again",
    )
    sums = again.key_by("customer", name="sums").aggregate(s="sum(amount)", n="count(*)")
    large = orders.sql("SELECT customer, amount FROM orders WHERE amount >= 50", name="large")
    named = totals.sql("SELECT upper(customer) AS name, customer, total FROM totals WHERE total > 0", name="named")
    for name, stream in {"totals": totals, "sums": sums, "large": large, "named": named}.items():
        made = made.output(name, stream, Sink.parquet(base / "out" / name))
    return made


def expected(epochs: int) -> dict[str, Counter[tuple[Any, ...]]]:
    orders = [record for epoch in ORDERS[:epochs] for record in epoch]
    refunds = [record for epoch in REFUNDS[:epochs] for record in epoch]
    totals, sums = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for record in orders:
        totals[record["customer"]].append(record["amount"])
        sums[record["customer"].upper()].append(record["amount"])
    for record in refunds:
        totals[record["customer"]].append(-record["amount"])
    for customer, amounts in totals.items():
        sums[customer].append(sum(amounts))
    return {
        "totals": Counter((customer, sum(amounts), len(amounts)) for customer, amounts in totals.items()),
        "sums": Counter((customer, sum(amounts), len(amounts)) for customer, amounts in sums.items()),
        "large": Counter((record["customer"], record["amount"]) for record in orders if record["amount"] >= 50),
        "named": Counter((c.upper(), c, sum(amounts)) for c, amounts in totals.items() if sum(amounts) > 0),
    }


def found(base: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    columns = {"totals": "customer total n", "sums": "customer s n", "large": "customer amount"}
    columns["named"] = "name customer total"
    return {
        name: Counter(tuple(row[one] for one in names.split()) for row in output_rows(base / "out" / name))
        for name, names in columns.items()
    }


def write(base: Path, number: int) -> None:
    write_json(base / "orders", f"{number}.json", ORDERS[number])
    write_json(base / "refunds", f"{number}.json", REFUNDS[number])


@pytest.mark.parametrize("mode", ["batch", "mixed", pytest.param("streaming", marks=pytest.mark.soak)])
def test_sql_over_several_inputs_and_changing_rows_beside_added_ones(
    tmp_path: Path, spark: SparkSession, mode: Any
) -> None:
    write(tmp_path, 0)
    if mode == "batch":
        write(tmp_path, 1)
        run(job(tmp_path, mode), spark)
    else:
        run(job(tmp_path, mode), spark, until=Until.IDLE)
        assert found(tmp_path) == expected(1)
        write(tmp_path, 1)
        run(job(tmp_path, mode, parallelism=3), spark, until=Until.DRAINED)
    assert found(tmp_path) == expected(2)


def test_branches_run_at_the_same_time(tmp_path: Path, spark: SparkSession) -> None:
    """The function of each branch waits for that of the other one, so they meet only if both run."""
    write_json(tmp_path / "orders", "0.json", [{"customer": "c", "at": "2024-01-01T05:00:00Z"}])
    made = Job(
        "meeting",
        sources={
            "orders": Source.json(tmp_path / "orders", schema="customer string, at timestamp", event_time="at"),
        },
        checkpoint_dir=tmp_path / "checkpoints",
        parallelism=1,
        spark=SPARK,
    )
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(60)
        for name in ("a", "b"):
            stream = made.source("orders").key_by("customer", name=name)
            met = stream.process(Meets, output="customer string, met string", args={"port": server.getsockname()[1]})
            made = made.output(name, met, Sink.parquet(tmp_path / "out" / name))
        meeting = pool.submit(let_meet, server)
        recording = run(made, spark, clock=ManualClock(1_800_000_000_000))
        meeting.result()
    rows = [[(row["customer"], row["met"]) for row in output_rows(tmp_path / "out" / name)] for name in ("a", "b")]
    assert rows == [[("c", "both")], [("c", "both")]]
    (manifest,) = manifests(tmp_path / "checkpoints")
    assert (manifest.records_in, [event.manifest for event in recording.committed]) == (1, [manifest])
    assert manifest.sources["orders"].max_event_time_us == 1_704_085_200_000_000


def let_meet(server: socket.socket) -> None:
    with server.accept()[0] as one, server.accept()[0] as other:
        for connection in (one, other):
            connection.sendall(b"both")


def test_rows_that_change_together_with_others_need_a_key_before_an_output(tmp_path: Path, spark: SparkSession) -> None:
    made = job(tmp_path, "batch")
    write(tmp_path, 0)
    totals = made.source("orders").key_by("customer", name="t").aggregate(total="sum(amount)")
    both = totals.sql(
        "SELECT customer, total FROM t UNION ALL SELECT customer, amount FROM orders",
        others=[made.source("orders")],
        name="mixture",
    )
    with pytest.raises(InvalidJobError, match=r"the output has rows of several steps or sources, and some of them ch"):
        run(made.output("mixture", both, Sink.parquet(tmp_path / "mixture")), spark)


def test_branches_that_read_sources_may_be_dropped_and_the_others_go_on(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, 0)
    whole = job(tmp_path, "mixed")
    run(whole, spark, until=Until.IDLE)
    whole.create_savepoint(tmp_path / "savepoint")
    shutil.rmtree(tmp_path / "checkpoints")
    before = found(tmp_path)
    results = {"totals": whole.results["totals"]}
    smaller = whole.placed(whole.settings, whole.steps[:2], results)
    place = str(tmp_path / "savepoint")
    with pytest.raises(InvalidJobError, match=r"it has state of steps that the job does not have: 'sums'"):
        restore_savepoint(place, smaller.spec, smaller.where, session=spark)
    restored = restore_savepoint(place, smaller.spec, smaller.where, allow_dropped=True, session=spark)
    assert (restored.outputs, restored.dropped_outputs) == (("totals",), ("sums", "large", "named"))
    write(tmp_path, 1)
    run(smaller, spark, until=Until.DRAINED)
    assert found(tmp_path) == before | {"totals": expected(2)["totals"]}


@pytest.mark.soak
def test_a_new_reader_of_a_source_needs_a_new_start(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path, 0)
    whole = job(tmp_path, "mixed")
    run(whole, spark, until=Until.IDLE)
    small = whole.source("orders").sql("SELECT * FROM orders WHERE amount < 50", name="small")
    larger = whole.output("small", small, Sink.parquet(tmp_path / "out" / "small"))
    with pytest.raises(InvalidJobError, match=r"read-by"):
        run(larger, spark)
    whole.create_savepoint(tmp_path / "savepoint")
    shutil.rmtree(tmp_path / "checkpoints")
    missed = "output 'small' reads a source and was added, and nothing in the savepoint holds the rows"
    with pytest.raises(InvalidJobError, match=missed):
        restore_savepoint(str(tmp_path / "savepoint"), larger.spec, larger.where, session=spark)
