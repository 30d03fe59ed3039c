"""A job in a SQL file on Spark: in every mode, its tables are those that plain Python computes of the same records."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mixedmode.config import load_job
from mixedmode.driver.verification import verify_job
from tests.cli.shell import command, lines
from tests.driver.shop import NAMES, story, tell, write_countries
from tests.harness import Row, output_rows, write_text

pytestmark = pytest.mark.spark

SHOP = """\
-- What customers bought and returned.
SET execution.checkpointing.dir = ./checkpoints;
SET spark.master = local[2];
SET parallelism = 2;
SET pipeline.max-parallelism = 16;

CREATE TEMPORARY VIEW orders (customer STRING, country STRING, amount BIGINT, ts BIGINT)
  USING json OPTIONS (path 'orders');
CREATE TEMPORARY VIEW refunds (customer STRING, amount BIGINT) USING json OPTIONS (path 'refunds');
CREATE TEMPORARY VIEW countries (code STRING, name STRING) USING csv OPTIONS (path 'countries', header true);

-- a statement may stand before those that it reads
CREATE STREAMING TABLE totals TBLPROPERTIES (path 'out/totals') AS
  SELECT customer, sum(amount) AS total FROM STREAM moves GROUP BY customer;

CREATE STREAMING TABLE moves USING json TBLPROPERTIES ('path' = 'out/moves');
CREATE FLOW bought AS INSERT INTO moves BY NAME SELECT customer, amount FROM STREAM orders;
CREATE FLOW returned AS INSERT INTO moves BY NAME SELECT -amount AS amount, customer FROM STREAM(refunds);

CREATE TEMPORARY VIEW named AS
  SELECT c.name, o.at FROM STREAM orders WATERMARK timestamp_millis(ts) AS at DELAY OF INTERVAL 1 HOUR o
  JOIN countries c ON o.country = c.code;
CREATE STREAMING TABLE hours USING parquet TBLPROPERTIES (path 'out/hours') AS
  SELECT name, window.start AS hour, count(*) AS orders FROM named GROUP BY name, window(at, '1 hour');

CREATE STREAMING TABLE cheap TBLPROPERTIES (path 'out/cheap') AS
  SELECT o.customer, o.amount, c.name
  FROM STREAM orders o JOIN STREAM refunds r ON o.customer = r.customer AND o.amount < r.amount + 7
  JOIN countries c ON c.code = o.country;
"""


def expected(orders: list[Row], refunds: list[Row]) -> dict[str, set[tuple[Any, ...]]]:
    """The rows of each table."""
    totals: dict[str, int] = defaultdict(int)
    for row in orders:
        totals[row["customer"]] += row["amount"]
    for row in refunds:
        totals[row["customer"]] -= row["amount"]
    hours: dict[tuple[str, datetime], int] = defaultdict(int)
    newest = datetime.fromtimestamp(max(row["ts"] for row in orders) / 1000, UTC)
    for row in orders:
        hour = datetime.fromtimestamp(row["ts"] / 1000, UTC).replace(minute=0, second=0, microsecond=0)
        if row["country"] in NAMES and hour + timedelta(hours=1) <= newest - timedelta(hours=1):
            hours[NAMES[row["country"]], hour] += 1
    pairs = Counter(
        (row["customer"], row["amount"], NAMES[row["country"]])
        for row in orders
        for other in refunds
        if row["customer"] == other["customer"] and row["amount"] < other["amount"] + 7 and row["country"] in NAMES
    )
    return {
        "cheap": set(pairs.items()),
        "totals": set(totals.items()),
        "hours": {(*key, count) for key, count in hours.items()},
    }


@pytest.mark.parametrize("mode", ["batch", "mixed", pytest.param("streaming", marks=pytest.mark.soak)])
def test_the_tables_of_a_sql_file_are_those_of_its_records(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    file = write_text(tmp_path, "shop.sql", SHOP)
    write_countries(tmp_path)
    orders, refunds = story(seed=len(mode), amounts=100)
    overrides = [f"execution.runtime-mode={mode}"]
    tell(spark, file, overrides, orders, refunds)

    bought, returned = list(chain.from_iterable(orders)), list(chain.from_iterable(refunds))
    wanted = expected(bought, returned)
    found = {name: output_rows(tmp_path / "out" / name) for name in ("totals", "hours", "cheap")}
    assert {(row["customer"], row["total"]) for row in found["totals"]} == wanted["totals"]
    assert (
        set(Counter((row["customer"], row["amount"], row["name"]) for row in found["cheap"]).items()) == wanted["cheap"]
    )
    if mode != "batch":  # batch ends the input, so all windows are emitted
        assert {(row["name"], row["hour"], row["orders"]) for row in found["hours"]} == wanted["hours"]
    if mode == "mixed":
        verified = verify_job(load_job(file, overrides))
        assert {name: found.are_none for name, found in verified.differences.items()} == dict.fromkeys(
            ("totals", "moves", "hours", "cheap"), True
        )
        assert verified.files == 6
    moves = output_rows(tmp_path / "out" / "moves")
    assert sorted((row["customer"], row["amount"]) for row in moves) == sorted(
        [(row["customer"], row["amount"]) for row in bought] + [(row["customer"], -row["amount"]) for row in returned]
    )


def test_commands_take_a_sql_file_and_name_its_lines(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("orders", "refunds"):
        (tmp_path / name).mkdir()
    write_text(tmp_path / "countries", "c.csv", "code,name\nat,Austria\n")
    file = write_text(tmp_path, "shop.sql", SHOP)
    assert lines(command("validate", file)) == [
        f"{file} is valid. Result totals: customer string, total int64",
        f"{file} is valid. Result moves: customer string, amount int64",
        f"{file} is valid. Result hours: name string, hour timestamp[us, tz=UTC], orders int64",
        f"{file} is valid. Result cheap: customer string, amount int64, name string",
    ]
    wrong = write_text(tmp_path, "wrong.sql", SHOP.replace("SELECT c.name, o.at", "SELECT c.nam, o.at"))
    line = SHOP[: SHOP.index("SELECT c.name")].count("\n") + 1
    told = command("validate", wrong)
    assert told.exit_code == 2
    assert f"{wrong}:{line}: query named: Spark refuses this SQL" in told.output
    assert "cannot be resolved. Did you mean" in told.output
