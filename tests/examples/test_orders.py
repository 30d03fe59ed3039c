"""The example of docs/tutorial-orders.md, end to end, as a reader runs it, over fewer orders."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mixedmode.config import load_job
from tests.services.fixtures import Database, Kafka

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "orders"
HISTORY, PER_SECOND = 10_000, 200


@pytest.mark.spark
def test_history_and_live_orders_end_in_the_table_that_plain_python_gives(
    kafka: Kafka, database: Database, tmp_path: Path
) -> None:
    servers = {"KAFKA_SERVERS": kafka.bootstrap_servers, "POSTGRES_URL": database.url}
    sizes = {"--history": HISTORY, "--live-seconds": 2, "--per-second": PER_SECOND}
    command = [sys.executable, str(EXAMPLE / "run.py"), "--folder", str(tmp_path / "orders")]
    command += [str(part) for pair in sizes.items() for part in pair]
    command += ["--set", "spark.driver.memory=1g"]
    environment = {**os.environ, **servers}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "0 of them differ from plain Python" in done.stdout, said
    assert "\nflip" in done.stdout, said
    assert "\nlive" in done.stdout, said
    assert database.url not in said, "what the job says never has the password"

    numbers = [json.loads(record.value or b"")["order_id"] for record in kafka.consume("orders")]
    assert min(numbers) < HISTORY < max(numbers), "the topic begins before the history ends"
    (paid,) = database.sql("SELECT sum(orders) FROM shop.customer_totals")[0]
    assert 0.8 * max(numbers) < paid < max(numbers)


def test_the_job_file_is_valid_without_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_SERVERS", "POSTGRES_URL"):
        monkeypatch.delenv(name, raising=False)
    loaded = load_job(EXAMPLE / "job.yaml")
    assert "${env:POSTGRES_URL}" in loaded.spec.model_dump_json()


def test_the_tutorial_shows_the_job_file_as_it_is() -> None:
    assert (EXAMPLE / "job.yaml").read_text() in (ROOT / "docs" / "tutorial-orders.md").read_text()
