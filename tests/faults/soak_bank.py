"""The bank of the soak: accounts, a feed of transfers that never stops, and a reader that watches the published output.

An epoch is a published state once a later one is committed, since a job publishes an epoch before it runs
the next. So the reader folds the output epoch by epoch behind the newest manifest, and the sum over all accounts has to
be 0 after each of them. When the job has gone back, the reader finds files changed or gone, and begins anew.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode.checkpoint import output_paths
from tests.harness import checkpoint_log, output_rows, write_parquet, write_text

JOB = """\
name: bank
execution:
  runtime-mode: mixed
  checkpointing: {interval: 500ms, num-retained: 5, tolerable-failed-checkpoints: 3, dir: ./checkpoints}
parallelism: 2
pipeline: {max-parallelism: 13}
spark: {master: "local[2]", driver.memory: 1g}
sources:
  postings: {format: parquet, path: in, schema: "account long, amount long, at timestamp", event-time: at}
steps:
  - key-by: account
    aggregate: {n: count(*), total: sum(amount)}
sink: {format: parquet, path: ./out}
"""
SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
ACCOUNTS = 1_000
HISTORY_FILES, HISTORY_TRANSFERS = 20, 5_000
LIVE_TRANSFERS = 100
FEED_SECONDS = 0.25

Account = tuple[int, int]  # postings, total


class Violation(Exception):  # noqa: N818 - what the soak looks for, not a defect of the soak
    """Raised if the soak finds something that must never happen."""


class Bank:
    """The folder of the job, its input, and how the accounts stand: {account: (postings, total)}."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._counts: Counter[int] = Counter()
        self._totals: Counter[int] = Counter()
        self._files = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        write_text(folder, "job.yaml", JOB)
        for _ in range(HISTORY_FILES):
            self._write(HISTORY_TRANSFERS)

    @property
    def job_file(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def postings(self) -> int:
        """So far."""
        return self._counts.total()

    def open(self) -> None:
        """From now on, transfers come all the time."""
        self._thread.start()

    def close(self) -> None:
        """No more transfers come."""
        self._done.set()
        self._thread.join()

    def check_answer(self) -> None:
        """Raises Violation unless the output's table is what the transfers come to."""
        expected = {account: (count, self._totals[account]) for account, count in self._counts.items()}
        found = {row["account"]: (row["n"], row["total"]) for row in output_rows(self.out)}
        wrong = {a: (expected.get(a), found.get(a)) for a in expected.keys() | found.keys()}
        wrong = {account: pair for account, pair in wrong.items() if pair[0] != pair[1]}
        if wrong:
            some = dict(list(wrong.items())[:5])
            msg = f"the table is not the answer: {len(wrong)} accounts differ, (expected, found): {some}"
            raise Violation(msg)

    def _feed(self) -> None:
        while not self._done.wait(FEED_SECONDS):
            self._write(LIVE_TRANSFERS)

    def _write(self, transfers: int) -> None:
        """Both sides of a transfer are in one file, so an epoch has both or none."""
        rows = []
        at = datetime(2001, 1, 1, tzinfo=UTC) + timedelta(seconds=self._files)
        for _ in range(transfers):
            amount = self._random.randrange(1, 1_000)
            for account, change in ((self._account(), -amount), (self._account(), amount)):
                rows.append({"account": account, "amount": change, "at": at})
                self._counts[account] += 1
                self._totals[account] += change
        write_parquet(self.folder / "in", f"{self._files:08}.parquet", pa.Table.from_pylist(rows, SCHEMA))
        self._files += 1

    def _account(self) -> int:
        """Some accounts are busy, most are not, so that new ones come for a long time."""
        if self._random.random() < 0.5:
            return int(ACCOUNTS ** self._random.random())
        return self._random.randrange(ACCOUNTS)


@dataclass
class Auditor:
    """Reads what is published, epoch by epoch; `states` counts the published states that were looked at."""

    bank: Bank
    states: int = 0
    _table: dict[int, Account] = field(default_factory=dict)
    _sum: int = 0
    _epoch: int = -1  #: the last one that is in the table
    _stamps: dict[str, tuple[int, int]] = field(default_factory=dict)  #: {file in the table: what shows a change}

    def look(self) -> None:
        """Fold what is new. Raises Violation if money was made or lost in a published state."""
        epochs = checkpoint_log(self.bank.checkpoints).epochs()
        try:
            self._look(epochs[-1] if epochs else 0)
        except FileNotFoundError:  # the job is just going back: the next look begins anew
            self._begin_anew()

    def _look(self, newest: int) -> None:
        found = dict(self._published(newest))
        if any(found.get(name) != stamp for name, stamp in self._stamps.items()):
            self._begin_anew()
        for name in sorted(found.keys() - self._stamps.keys()):
            epoch = _epoch_of(name)
            if epoch > self._epoch:
                self._check_sum()
            self._epoch = epoch
            self._fold(name)
            self._stamps[name] = found[name]
        self._check_sum()

    def _published(self, newest: int) -> Iterator[tuple[str, tuple[int, int]]]:
        for path in self.bank.out.glob("part-*"):
            if _epoch_of(path.name) < newest:
                status = path.stat()
                yield path.name, (status.st_ino, status.st_size)

    def _fold(self, name: str) -> None:
        columns = pq.read_table(self.bank.out / name, columns=["account", "n", "total"]).to_pydict()
        for account, count, total in zip(columns["account"], columns["n"], columns["total"], strict=True):
            before, balance = self._table.get(account, (0, 0))
            if count <= before:
                msg = f"an account has fewer postings than before: {account=}, {count=}, {before=}, file={name}"
                raise Violation(msg)
            self._sum += total - balance
            self._table[account] = (count, total)

    def _check_sum(self) -> None:
        if self._epoch < 0:
            return
        self.states += 1
        if self._sum != 0:
            msg = f"the accounts sum up to {self._sum} instead of 0 after epoch {self._epoch}"
            raise Violation(msg)

    def _begin_anew(self) -> None:
        self._table, self._stamps, self._sum, self._epoch = {}, {}, 0, -1


def _epoch_of(name: str) -> int:
    parsed = output_paths.parse_output_path(name)
    assert parsed is not None, name
    return int(parsed.first)
