"""Orders and refunds of a shop, which jobs in other files than YAML read: in a backlog and in two live epochs."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from mixedmode.job import Job
from tests.harness import ManualClock, Row, run, write_json, write_text

NAMES = {"at": "Austria", "fr": "France", "jp": "Japan"}
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def write_countries(folder: Path) -> None:
    """Write the table of countries."""
    write_text(folder / "countries", "c.csv", "code,name\n" + "".join(f"{k},{v}\n" for k, v in NAMES.items()))


def story(seed: int, *, amounts: int) -> tuple[list[list[Row]], list[list[Row]]]:
    """(orders, refunds) of a backlog and two live epochs; times go up, and the last order is a week later.

    amounts: those of orders are below it.
    """
    chance = random.Random(seed)
    orders: list[list[Row]] = []
    for epoch, count in enumerate((60, 10, 5)):
        times = [BEGIN + timedelta(hours=5 * epoch, minutes=chance.randrange(280)) for _ in range(count)]
        orders.append(
            [
                {
                    "customer": f"c{chance.randrange(7)}",
                    "country": chance.choice(["at", "fr", "jp", "xx"]),
                    "amount": chance.randrange(amounts),
                    "ts": int(at.timestamp() * 1000),
                }
                for at in sorted(times)
            ]
        )
    orders[-1].append({"customer": "c0", "country": "at", "amount": 1, "ts": orders[-1][-1]["ts"] + 7 * 86_400_000})
    refunds = [[{"customer": f"c{chance.randrange(7)}", "amount": 3} for _ in range(count)] for count in (20, 0, 4)]
    return orders, refunds


def tell(
    spark: SparkSession, file: Path, overrides: list[str], orders: list[list[Row]], refunds: list[list[Row]]
) -> None:
    """Run the job of a file over a story beside it. Batch mode starts when everything has arrived."""

    def arrive(epoch: int) -> None:
        write_json(file.parent / "orders", f"{epoch}.json", orders[epoch])
        write_json(file.parent / "refunds", f"{epoch}.json", refunds[epoch])

    job = Job.from_file(file, overrides)
    first = range(3) if job.spec.execution.runtime_mode == "batch" else range(1)
    for epoch in first:
        arrive(epoch)
    feed = [lambda epoch=epoch: arrive(epoch) for epoch in range(1, 3) if epoch not in first]
    run(job, spark, feed=feed, clock=ManualClock(int((BEGIN + timedelta(days=30)).timestamp() * 1000)))
