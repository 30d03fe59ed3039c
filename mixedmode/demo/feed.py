"""A feed of live orders: small Parquet files that keep appearing in a folder, at a steady rate, for a while.

The number of orders that must exist is a function of the elapsed time; each tick writes the missing orders. So the
next tick compensates for a slow one, and a feed of s seconds ends with exactly rate * s orders. Run it as its own
process (`python -m mixedmode.demo.feed DIR --first-order N`); it stops by itself.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixedmode.demo.orders import HISTORY_END_US, Shop, make_orders, write_orders


@dataclass(frozen=True, slots=True)
class Fed:
    """The numbers of orders and files that a feed has written."""

    orders: int
    files: int


def feed(
    directory: Path,
    *,
    seconds: float,
    orders_per_second: int,
    first_order: int,
    interval_seconds: float = 0.5,
    shop: Shop | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Fed:
    """Write a file about every `interval_seconds` for `seconds`; return what was written.

    Event time continues from the end of the history, as fast as the clock. Ids continue from `first_order`. Each file
    is named by its first order, so that names sort in time order.
    """
    directory.mkdir(parents=True, exist_ok=True)
    started, total, step_us = clock(), int(seconds * orders_per_second), 1e6 / orders_per_second
    written = files = ticks = 0
    while written < total:
        ticks += 1
        sleep(max(0.0, interval_seconds * ticks - (clock() - started)))
        due = min(total, int((clock() - started) * orders_per_second))
        if due == written:
            continue
        first = first_order + written
        block = make_orders(
            shop or Shop(),
            first_order=first,
            count=due - written,
            start_us=HISTORY_END_US + int(written * step_us),
            step_us=step_us,
        )
        write_orders(block, directory / f"live-{first:012d}.parquet")
        written, files = due, files + 1
    return Fed(written, files)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a feed with the arguments of the command line, and print what it wrote."""
    parser = argparse.ArgumentParser(prog="python -m mixedmode.demo.feed", description="Write live orders for a while.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--orders-per-second", type=int, default=20_000)
    parser.add_argument("--first-order", type=int, required=True, help="the number of orders in the history")
    parser.add_argument("--interval-seconds", type=float, default=0.5)
    parser.add_argument("--customers", type=int, default=Shop().customers)
    parser.add_argument("--seed", type=int, default=Shop().seed)
    chosen = parser.parse_args(arguments)
    fed = feed(
        chosen.directory,
        seconds=chosen.seconds,
        orders_per_second=chosen.orders_per_second,
        first_order=chosen.first_order,
        interval_seconds=chosen.interval_seconds,
        shop=Shop(customers=chosen.customers, seed=chosen.seed),
    )
    print(f"wrote {fed.orders} live orders in {fed.files} files")  # noqa: T201  the process's one line of output


if __name__ == "__main__":
    main()
