# ruff: noqa: INP001, T201  (a script, which prints)
"""The example's data, and the answer: trades and quotes of a market, and each trade with its quote in plain Python.

    python examples/trades/trades.py prepare     a day of history
    python examples/trades/trades.py feed        live trades and quotes, for a while
    python examples/trades/trades.py check       what the job has written, compared with plain Python

Event n is a function of n, so the live events go on where the history ends. They arrive up to two seconds out of order.
"""

import argparse
import bisect
import json
import random
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mixedmode import read_table

FOLDER = Path("run/trades")
SEAM = datetime(2025, 1, 2, tzinfo=UTC)  # as in the job file
SYMBOLS = ("AAPL", "AMZN", "GOOG", "IBM", "MSFT", "ORCL", "SAP", "TSLA")
TRADES_PER_QUOTE = 5
LATE_MAX = timedelta(seconds=2)
TOLERANCE = timedelta(minutes=5)
LIVE_STEP = timedelta(milliseconds=20)  # of event time, between two live events
ROWS_SHOWN = 5

Event = dict[str, Any]


def events(first: int, count: int, start: datetime, step: timedelta) -> Iterator[tuple[str, Event]]:
    """Yield (table, event) in the order of arrival, for the events of these numbers. Prices are in cents."""
    for number in range(first, first + count):
        rng = random.Random(number)  # noqa: S311 - no secret
        at = start + (number - first) * step + timedelta(microseconds=rng.randrange(2_000_000))
        symbol = rng.choice(SYMBOLS)
        middle = 10_000 + 1_000 * SYMBOLS.index(symbol) + rng.randrange(-200, 200)
        if number % (1 + TRADES_PER_QUOTE) == 0:
            yield "quotes", {"quote_id": number, "symbol": symbol, "bid": middle - 5, "ask": middle + 5, "at": at}
        else:
            quantity = rng.randrange(1, 500)
            yield "trades", {"trade_id": number, "symbol": symbol, "quantity": quantity, "price": middle, "at": at}


def prepare(folder: Path, *, count: int) -> None:
    """Write the history, of `count` events; what an earlier run left is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    step = (timedelta(days=1) - LATE_MAX) / count
    tables = defaultdict[str, list[Event]](list)
    for table, event in events(0, count, SEAM - timedelta(days=1), step):
        tables[table].append(event)
    for table, rows in tables.items():
        place = folder / "history" / table
        place.mkdir(parents=True)
        (folder / "live" / table).mkdir(parents=True)
        types = pa.Table.from_pylist(rows).schema
        times = types.set(types.get_field_index("at"), pa.field("at", pa.timestamp("us", "UTC")))
        pq.write_table(pa.Table.from_pylist(rows, times), place / "day.parquet")
    print(f"history: {len(tables['trades']):,} trades and {len(tables['quotes']):,} quotes in {folder / 'history'}")


def feed(folder: Path, *, seconds: int, per_second: int) -> None:
    """Write live events, a file per table and second. They go on where those before end."""
    held, lived = _counts(folder)
    for second in range(seconds):
        before = second * per_second
        _write(folder, held + before, per_second, SEAM + (lived + before) * LIVE_STEP)
        if second + 1 < seconds:
            time.sleep(1)
    print(f"feed: {seconds * per_second:,} live events are in {folder / 'live'}")


def write_live(folder: Path, count: int) -> None:
    """Write the next `count` live events, a file per table."""
    held, lived = _counts(folder)
    _write(folder, held, count, SEAM + lived * LIVE_STEP)


def _counts(folder: Path) -> tuple[int, int]:
    """Return the number of all events, and of the live ones."""
    held = sum(len(_read(folder, table)) for table in ("trades", "quotes"))
    return held, sum(len(list(_live(folder, table))) for table in ("trades", "quotes"))


def _write(folder: Path, first: int, count: int, start: datetime) -> None:
    """Write live events from this number and time on. A file appears whole: readers skip names with a dot."""
    tables = defaultdict[str, list[Event]](list)
    for table, event in events(first, count, start, LIVE_STEP):
        tables[table].append(event)
    for table, rows in tables.items():
        draft, name = folder / "live" / table / ".draft", f"{first:09d}.json"
        lines = (json.dumps({**row, "at": row["at"].isoformat()}) for row in rows)
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        draft.rename(folder / "live" / table / name)


def check(folder: Path) -> bool:
    """Return whether all rows are those of plain Python, and none is missing but for trades that wait; print some."""
    expected = priced(_read(folder, "trades"), _read(folder, "quotes"))
    found = {row["trade_id"]: row["quote_id"] for row in read_table(str(folder / "priced")).to_pylist()}
    names = sorted(found.keys() | expected.keys())
    passed = _watermark(folder)
    waiting = {trade["trade_id"] for trade in _read(folder, "trades") if trade["at"] >= passed}
    wrong = [
        name
        for name in names
        if (name in found and found[name] != expected.get(name, "none")) or (name not in found and name not in waiting)
    ]
    for name in wrong[:ROWS_SHOWN]:
        print(f"trade {name}: expected {expected.get(name, 'no row')}, found {found.get(name, 'no row')}")
    left = len(expected.keys() - found.keys())
    print(f"check: {len(found):,} priced trades, {len(wrong)} of them differ from plain Python, {left:,} still wait")
    return not wrong


def priced(trades: list[Event], quotes: list[Event]) -> dict[int, int | None]:
    """Return {trade: the last quote of its symbol that is not later, and not older than five minutes}."""
    by_symbol = defaultdict[str, list[tuple[datetime, int]]](list)
    for quote in quotes:
        by_symbol[quote["symbol"]].append((quote["at"], quote["quote_id"]))
    for found in by_symbol.values():
        found.sort()
    answer = {}
    for trade in trades:
        known = by_symbol[trade["symbol"]]
        place = bisect.bisect_right(known, (trade["at"], sys.maxsize)) - 1
        is_met = place >= 0 and trade["at"] - known[place][0] <= TOLERANCE
        answer[trade["trade_id"]] = known[place][1] if is_met else None
    return answer


def minutes(trades: list[Event]) -> Counter[tuple[str, datetime]]:
    """Return {(symbol, minute): the number of its trades}."""
    return Counter((trade["symbol"], trade["at"].replace(second=0, microsecond=0)) for trade in trades)


def _watermark(folder: Path) -> datetime:
    """Return the time before which no event can come any more: trades before it have been priced."""
    newest: list[datetime] = [max(event["at"] for event in _read(folder, table)) for table in ("trades", "quotes")]
    return min(newest) - LATE_MAX


def _read(folder: Path, table: str) -> list[Event]:
    rows: list[Event] = pq.read_table(folder / "history" / table).to_pylist()
    return [*rows, *_live(folder, table)]


def _live(folder: Path, table: str) -> Iterator[Event]:
    for path in sorted((folder / "live" / table).glob("*.json")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            yield {**event, "at": datetime.fromisoformat(event["at"])}


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Data and answer of the example.")
    parser.add_argument("what", choices=["prepare", "feed", "check"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--events", type=int, default=200_000, help="of the history (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of the feed (default: %(default)s)")
    parser.add_argument("--per-second", type=int, default=200, help="live events (default: %(default)s)")
    chosen = parser.parse_args()
    if chosen.what == "prepare":
        prepare(chosen.folder, count=chosen.events)
    elif chosen.what == "feed":
        feed(chosen.folder, seconds=chosen.seconds, per_second=chosen.per_second)
    elif not check(chosen.folder):
        sys.exit(1)


if __name__ == "__main__":
    main()
