"""A bank: transfers between accounts, the jobs that sum them up, and the answers as plain Python.

A transfer is two records of one file and one time, so the sum over all rows of any of these jobs is 0, in every epoch
that a reader may see, whatever was killed, damaged, moved or done again before it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from typing_extensions import override

from mixedmode.config import CoProcessStep, JoinStep, ProcessStep
from mixedmode.job import Job, Sink, Source
from mixedmode.process import (
    AsyncMapFunction,
    Context,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapState,
    Record,
    Request,
)
from tests.walk.engine import Place

MAX_PARALLELISM = 13
ACCOUNTS = 12
SECOND_US = 1_000_000
WINDOW_US = 10 * SECOND_US
SOON_US = 4 * SECOND_US
OUT_OF_ORDERNESS_US = 5 * SECOND_US
FILE_STEP_US = 3 * SECOND_US  # between the earliest records of two files: the later file's are never late

SCHEMA = pa.schema([("account", pa.string()), ("amount", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
DDL = "account string, amount bigint, at timestamp"

Row = Mapping[str, Any]
Table = dict[tuple[Any, ...], Row]


@dataclass(frozen=True, slots=True)
class Posting:
    """One side of a transfer."""

    account: str
    amount: int
    at_us: int


Postings = tuple[Posting, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A file of transfers, (from, to, amount, time after the file's own), that has not come yet."""

    transfers: tuple[tuple[int, int, int, int], ...]

    def postings(self, number: int) -> Postings:
        """Return the postings that arrive as the file of this number, which determines their times."""
        start_us = number * FILE_STEP_US
        return tuple(
            posting
            for source, target, amount, after_us in self.transfers
            for posting in (
                Posting(f"account {source}", -amount, start_us + after_us),
                Posting(f"account {target}", amount, start_us + after_us),
            )
        )


def drafts() -> st.SearchStrategy[Draft]:
    """Files of a few transfers."""
    account = st.integers(0, ACCOUNTS - 1)
    transfer = st.tuples(account, account, st.integers(1, 9), st.integers(0, OUT_OF_ORDERNESS_US - 1))
    return st.lists(transfer, min_size=1, max_size=4).map(lambda found: Draft(tuple(found)))


def as_table(postings: Iterable[Posting]) -> pa.Table:
    """The records as Spark would read them from a file."""
    return pa.Table.from_pylist([{"account": p.account, "amount": p.amount, "at": p.at_us} for p in postings], SCHEMA)


class Statements(KeyedProcessFunction):
    """Sums up each account's postings by ten seconds, and gives a sum once its time is over."""

    sums = MapState(int, int)

    @override
    def process_element(self, record: Record, context: Context) -> None:
        assert context.timestamp is not None
        end = context.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        self.sums[end] = self.sums.get(end, 0) + record["amount"]
        context.timers.register_event_time_timer(end)

    @override
    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"account": context.current_key, "until": timestamp, "total": self.sums.pop(timestamp)}


class Twice(KeyedCoProcessFunction):
    """The same over two inputs: the sums of both."""

    sums = MapState(int, int)

    @override
    def process_left(self, record: Record, context: Context) -> None:
        assert context.timestamp is not None
        end = context.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        self.sums[end] = self.sums.get(end, 0) + record["amount"]
        context.timers.register_event_time_timer(end)

    @override
    def process_right(self, record: Record, context: Context) -> None:
        self.process_left(record, context)

    @override
    def on_timer(self, timestamp: int, context: Context) -> Record:
        return {"account": context.current_key, "until": timestamp, "total": self.sums.pop(timestamp)}


class Holdings(KeyedProcessFunction):
    """For each posting, the sum of the last amounts of all accounts at its time."""

    @override
    def process_element(self, record: Record, context: Context) -> Record:
        assert context.timestamp is not None
        rows = context.broadcast["last"].as_of(context.timestamp)
        return {"account": record["account"], "other": sum(row["amount"] for row in rows.values())}


class Shout(AsyncMapFunction):
    """Asks nobody: the name of an account in capitals."""

    @override
    async def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        return [{"name": request["account"].upper()} for request in requests]


@dataclass(frozen=True, slots=True)
class Book:
    """A job over the postings: its steps, the columns that tell its rows apart, and its answer.

    `amount` is the column whose sum is constant, if there is one. `is_table`: its rows change, and all of them are
    stored, so that they can be given again to a new output; else each row is given once and for ever. `readings`: how
    often the first step reads each posting.
    """

    steps: Callable[[Job], Job]
    keys: tuple[str, ...]
    amount: str | None
    answer: Callable[[Sequence[Posting]], Iterable[Row]]
    is_table: bool = True
    readings: int = 1

    def job(self, place: Place, parallelism: int, *, retained: int, sort_memory: int, tolerable: int) -> Job:
        """The job over the folders of a walk."""
        source = Source.parquet(place.input, schema=DDL, event_time="at", out_of_orderness="5s")
        job = Job(
            "bank",
            sources={"postings": source},
            mode="mixed",
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            checkpoint_dir=place.checkpoints,
            checkpoint_interval="1ms",
            checkpoints_retained=retained,
            tolerable_failed_checkpoints=tolerable,
            sort_memory=sort_memory,
        )
        return self.steps(job).write(Sink.parquet(place.out))

    def expected(self, postings: Sequence[Posting], *, before: Sequence[Posting] = ()) -> Table:
        """The table after these postings; `before`: those of them that had come when the output was begun anew."""
        table = self.keyed(self.answer(postings))
        if self.is_table:
            return table
        return {key: row for key, row in table.items() if key not in self.keyed(self.answer(before))}

    def keyed(self, rows: Iterable[Row]) -> Table:
        """Rows by key; no key is there twice."""
        table: Table = {}
        for row in rows:
            key = self.key_of(row)
            assert key not in table, f"two rows of one key: {row}, {table[key]}"
            table[key] = row
        return table

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """Return the key that identifies a row."""
        return tuple(row[name] for name in self.keys)

    def fold(self, table: Table, changes: Iterable[Row]) -> None:
        """Apply the rows of one epoch's output, each of which has to fit what is there."""
        seen = set()
        for change in changes:
            key = self.key_of(change)
            assert key not in seen, f"two rows of one key in one epoch: {change}"
            seen.add(key)
            assert (key in table) == (change["_op"] != "insert"), (
                f"{change['_op']} of a key that is there, or not: {change}"
            )
            row = {name: value for name, value in change.items() if name not in {"_op", "_epoch"}}
            if change["_op"] == "delete":
                del table[key]
            else:
                table[key] = row


def read_output(path: Path) -> list[dict[str, Any]]:
    """The rows of a published file."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def _balances(postings: Sequence[Posting]) -> list[Row]:
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for posting in postings:
        totals[posting.account] += posting.amount
        counts[posting.account] += 1
    return [{"account": account, "n": n, "total": totals[account]} for account, n in counts.items()]


def _by_activity(postings: Sequence[Posting]) -> list[Row]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row in _balances(postings):
        groups[row["n"]].append(row["total"])
    return [{"n": n, "accounts": len(totals), "held": sum(totals)} for n, totals in groups.items()]


def _both_ways(postings: Sequence[Posting]) -> list[Row]:
    return [{"n": row["n"], "accounts": 2 * row["accounts"], "held": 2 * row["held"]} for row in _by_activity(postings)]


def _branches(job: Job) -> Job:
    """Two steps over the postings, and one over the changing rows of both."""
    job = job.key_by("account", name="one").aggregate(n="count(*)", total="sum(amount)")
    job = _reading(job.key_by("account", name="other").aggregate(n="count(*)", total="sum(amount)"), "postings")
    return _reading(job.key_by("n").aggregate(accounts="count(*)", held="sum(total)"), "one", "other")


def _reading(job: Job, *names: str) -> Job:
    """The same job, whose last step reads these."""
    *before, last = job.steps
    return job.placed(job.settings, (*before, last.model_copy(update={"from_": names})), {})


def _closed_sums(postings: Sequence[Posting]) -> dict[tuple[str, int], int]:
    """{(account, end of its ten seconds): sum} of those that the watermark has passed."""
    watermark_us = max((p.at_us for p in postings), default=0) - OUT_OF_ORDERNESS_US
    sums: Counter[tuple[str, int]] = Counter()
    for posting in postings:
        end = posting.at_us // WINDOW_US * WINDOW_US + WINDOW_US
        sums[posting.account, end] += posting.amount
    return {key: total for key, total in sums.items() if key[1] <= watermark_us}


def _windows(postings: Sequence[Posting]) -> list[Row]:
    return [
        {"window_start": _instant(end - WINDOW_US), "window_end": _instant(end), "account": account, "total": total}
        for (account, end), total in _closed_sums(postings).items()
    ]


def _statements(postings: Sequence[Posting]) -> list[Row]:
    return [
        {"account": account, "until": end, "total": total} for (account, end), total in _closed_sums(postings).items()
    ]


def _ranks(postings: Sequence[Posting]) -> list[Row]:
    """All postings of each account, the newest first."""
    found = list[Row]()
    for account in {posting.account for posting in postings}:
        own = sorted((-p.at_us, p.amount) for p in postings if p.account == account)
        found += [
            {"account": account, "rank": rank, "amount": amount, "at": _instant(-at_us)}
            for rank, (at_us, amount) in enumerate(own, 1)
        ]
    return found


def _openings(postings: Sequence[Posting]) -> list[Row]:
    """The first posting of each account that the watermark has passed."""
    watermark_us = max((p.at_us for p in postings), default=0) - OUT_OF_ORDERNESS_US
    first: dict[str, Posting] = {}
    for posting in sorted(postings, key=lambda p: (p.at_us, p.amount), reverse=True):
        if posting.at_us < watermark_us:
            first[posting.account] = posting
    return [{"account": p.account, "amount": p.amount, "at": _instant(p.at_us)} for p in first.values()]


def _running(postings: Sequence[Posting]) -> list[Row]:
    """Each posting that the watermark has passed, with its number, the one before, and the sum so far, by account."""
    watermark_us = max((p.at_us for p in postings), default=0) - OUT_OF_ORDERNESS_US
    found, seen = list[Row](), defaultdict[str, list[int]](list)
    for p in sorted(postings, key=lambda p: (p.at_us, p.amount)):
        own = seen[p.account]
        if p.at_us < watermark_us:
            values = {"n": len(own) + 1, "before": own[-1] if own else None, "total": sum(own) + p.amount}
            found.append({"account": p.account, "amount": p.amount, "at": _instant(p.at_us), **values})
            own.append(p.amount)
    return found


def _joining(**join: Any) -> Callable[[Job], Job]:
    """Join the postings with themselves, and sum up what each account's postings have met."""
    inputs = {"left": "postings AS left", "right": "postings AS right", "on": "account"}
    select = ["left.account", "right.amount AS other"]
    step = JoinStep.model_validate({"name": "joined", "join": inputs | {"type": "left", "select": select} | join})
    return lambda job: job.with_step(step).key_by("account").aggregate(n="count(*)", others="sum(other)")


def _met(found: Iterable[tuple[Posting, Sequence[int]]]) -> list[Row]:
    """Sum up by account.  found: postings, with the amounts that each of them has met."""
    counts, others = Counter[str](), defaultdict[str, list[int]](list)
    for posting, amounts in found:
        counts[posting.account] += max(1, len(amounts))
        others[posting.account] += amounts
    return [
        {"account": account, "n": n, "others": sum(others[account]) if others[account] else None}
        for account, n in counts.items()
    ]


def _greater(postings: Sequence[Posting]) -> list[Row]:
    """Each posting with the greater ones of its account, or alone."""
    return _met((p, [q.amount for q in postings if q.account == p.account and p.amount < q.amount]) for p in postings)


def _soon_greater(postings: Sequence[Posting]) -> list[Row]:
    """The same with those of the next four seconds; alone once the watermark has passed them."""
    watermark_us = max((p.at_us for p in postings), default=0) - OUT_OF_ORDERNESS_US
    found = list[tuple[Posting, Sequence[int]]]()
    for p in postings:
        near = [q for q in postings if q.account == p.account and 0 <= q.at_us - p.at_us <= SOON_US]
        amounts = [q.amount for q in near if p.amount < q.amount]
        if amounts or p.at_us + SOON_US < watermark_us:
            found.append((p, amounts))
    return _met(found)


def _held(postings: Sequence[Posting]) -> list[Row]:
    """Each posting that the watermark has passed, with the sum of the last amounts of all accounts at its time."""
    watermark_us = max((p.at_us for p in postings), default=0) - OUT_OF_ORDERNESS_US
    ordered = sorted(postings, key=lambda p: (p.at_us, p.amount))
    found = list[tuple[Posting, Sequence[int]]]()
    for p in postings:
        last = {q.account: q.amount for q in ordered if q.at_us <= p.at_us}
        if p.at_us < watermark_us:
            found.append((p, [sum(last.values())]))
    return _met(found)


def _holding(job: Job) -> Job:
    """Ask for the last amounts of all accounts, and sum them up by account."""
    step = {
        "name": "held",
        "from": "postings",
        "key-by": "account",
        "process": f"{__name__}:Holdings",
        "output": "account string, other bigint",
        "broadcast": {"last": {"from": "postings", "key": "account", "tie-break": "amount"}},
    }
    summed = job.with_step(ProcessStep.model_validate(step)).key_by("account")
    return summed.aggregate(n="count(*)", others="sum(other)")


def _twice(job: Job) -> Job:
    pair = {"left": "postings AS left", "right": "postings AS right", "on": "account", "class": f"{__name__}:Twice"}
    given = {"co-process": {**pair, "output": "account string, until bigint, total bigint"}}
    return job.with_step(CoProcessStep.model_validate(given))


def _before(postings: Sequence[Posting]) -> list[Row]:
    """Each posting that the watermark has passed, with the one before, if it is not older than four seconds."""
    watermark_us = max((p.at_us for p in postings), default=0) - OUT_OF_ORDERNESS_US
    found = list[tuple[Posting, Sequence[int]]]()
    for p in postings:
        before = [(q.at_us, q.amount) for q in postings if q.account == p.account and q.at_us < p.at_us]
        last_us, amount = max(before, default=(0, 0))
        if p.at_us < watermark_us:
            found.append((p, [amount] if before and p.at_us - last_us <= SOON_US else []))
    return _met(found)


def _instant(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / SECOND_US, UTC)


BOOKS = {
    "balances": Book(
        lambda job: job.key_by("account").aggregate(n="count(*)", total="sum(amount)"), ("account",), "total", _balances
    ),
    "by activity": Book(
        lambda job: (
            job.key_by("account")
            .aggregate(n="count(*)", total="sum(amount)")
            .key_by("n")
            .aggregate(accounts="count(*)", held="sum(total)")
        ),
        ("n",),
        "held",
        _by_activity,
    ),
    "both ways": Book(_branches, ("n",), "held", _both_ways),
    "ranks": Book(
        lambda job: job.key_by("account").top(10_000, order_by="at desc"), ("account", "rank"), "amount", _ranks
    ),
    "openings": Book(
        lambda job: job.key_by("account").deduplicate(keep="first", tie_break="amount"),
        ("account",),
        None,
        _openings,
        is_table=False,
    ),
    "running": Book(
        lambda job: job.key_by("account").over(
            n="row_number()",
            before="lag(amount)",
            total="sum(amount) rows unbounded preceding",
            tie_break="amount",
        ),
        ("account", "n"),
        None,
        _running,
        is_table=False,
    ),
    "greater": Book(_joining(condition="left.amount < right.amount"), ("account",), None, _greater, readings=2),
    "soon greater": Book(
        _joining(condition="left.amount < right.amount", within=["0s", "4s"]),
        ("account",),
        None,
        _soon_greater,
        readings=2,
    ),
    "before": Book(
        _joining(**{"as-of": {"strictly": True, "tolerance": "4s", "tie-break": "amount"}}),
        ("account",),
        None,
        _before,
        readings=2,
    ),
    "windows": Book(
        lambda job: job.key_by("account").window(tumbling="10s").aggregate(total="sum(amount)"),
        ("window_start", "window_end", "account"),
        "total",
        _windows,
        is_table=False,
    ),
    "statements twice": Book(
        _twice,
        ("account", "until"),
        "total",
        lambda postings: [{**row, "total": 2 * row["total"]} for row in _statements(postings)],
        is_table=False,
        readings=2,
    ),
    "held": Book(_holding, ("account",), None, _held, readings=2),
    "asked": Book(
        lambda job: (
            job.key_by("account")
            .async_map(Shout, output="name string", remember="30d", batch_size=2)
            .key_by("name")
            .aggregate(n="count(*)", total="sum(amount)")
        ),
        ("name",),
        "total",
        lambda postings: [
            {"name": row["account"].upper(), "n": row["n"], "total": row["total"]} for row in _balances(postings)
        ],
    ),
    "statements": Book(
        lambda job: job.key_by("account").process(Statements, output="account string, until bigint, total bigint"),
        ("account", "until"),
        "total",
        _statements,
        is_table=False,
    ),
}
