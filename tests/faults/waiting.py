"""A job that waits in its backlog until a test lets it go, so that something can happen meanwhile."""

from collections import Counter
from pathlib import Path

from tests.faults.processes import wait_until
from tests.harness import output_rows, write_json, write_text

JOB = """\
name: waits
execution: {runtime-mode: mixed, checkpointing: {interval: 100ms, dir: ./checkpoints}}
parallelism: 2
spark: {master: "local[2]", driver.memory: 1g}
sources:
  sales: {format: json, path: in, schema: "shop string, price long"}
steps:
  - key-by: shop
    process: waiting:Waiting
    output: shop string
  - key-by: shop
    aggregate: {sales: count(*)}
sink: {format: parquet, path: ./out}
"""
CODE = """\
import threading
from pathlib import Path

from mixedmode.process import KeyedProcessFunction

HERE = Path(__file__).parent


class Waiting(KeyedProcessFunction):
    def open(self, context):
        (HERE / "begun").touch()
        while not (HERE / "go").exists():
            threading.Event().wait(0.01)

    def process_element(self, record, context):
        yield {"shop": record["shop"]}
"""


class WaitingJob:
    """A job whose subtasks say that they have begun, and go on when they are let."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shops = Counter[str]()
        write_text(folder, "job.yaml", JOB)
        write_text(folder, "waiting.py", CODE)

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    def add(self, name: str) -> None:
        rows = [{"shop": f"shop {number % 7}", "price": number} for number in range(50)]
        write_json(self.folder / "in", f"{name}.json", rows)
        self.shops.update(str(row["shop"]) for row in rows)

    def wait_until_begun(self) -> None:
        wait_until((self.folder / "begun").exists, "the backlog begins")

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def check(self) -> None:
        assert {row["shop"]: row["sales"] for row in output_rows(self.folder / "out")} == self.shops
