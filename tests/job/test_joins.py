"""Joins in Python: the same steps as in a job file, and arguments that make no sense."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mixedmode.config import JoinStep
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, Stream
from mixedmode.testing import run_graph


def job() -> Job:
    schemas = {"trades": "symbol string, price long, at timestamp", "quotes": "ticker string, bid long, at timestamp"}
    sources = {name: Source.parquet(name, event_time="at", schema=schema) for name, schema in schemas.items()}
    return Job("priced", sources=sources, mode="batch")


def step_of(stream: Stream) -> dict[str, Any]:
    (step,) = job().output("priced", stream, Sink.parquet("out")).steps
    return step.model_dump(by_alias=True, exclude_defaults=True)


def test_the_methods_make_the_steps_of_a_job_file() -> None:
    trades, quotes = job().source("trades"), job().source("quotes")
    common = {"left": "trades AS left", "right": "quotes AS right", "on": ("left.symbol = right.ticker",)}
    on = "left.symbol = right.ticker"
    as_of = trades.as_of_join(quotes, on=on, type="left", tie_break="bid", tolerance="5m", strictly=True, name="priced")
    assert JoinStep.model_validate(step_of(as_of)) == JoinStep.model_validate(
        {
            "name": "priced",
            "join": common | {"type": "left", "as-of": {"tie-break": "bid", "tolerance": "5m", "strictly": True}},
        }
    )
    interval = trades.interval_join(quotes, on=on, within=("-1h", "4h"), event_time="paid", name="pairs")
    assert JoinStep.model_validate(step_of(interval)) == JoinStep.model_validate(
        {"name": "pairs", "join": common | {"within": ["-1h", "4h"], "event-time": "paid"}}
    )
    regular = trades.join(
        quotes, on=on, type="full", condition="price > bid", select=["left.price", "right.bid"], parallelism=3
    )
    assert JoinStep.model_validate(step_of(regular)) == JoinStep.model_validate(
        {
            "name": "join_1",
            "join": common | {"type": "full", "condition": "price > bid", "select": ["left.price", "right.bid"]},
            "parallelism": 3,
        }
    )


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda left, right, **wrong: left.as_of_join(right, on="k", **wrong), "as_of_join"),
        (lambda left, right, **wrong: left.interval_join(right, on="k", within=("0s", "1s"), **wrong), "interval_join"),
        (lambda left, right, **wrong: left.join(right, on="k", **wrong), "join"),
    ],
)
def test_an_unknown_argument_and_a_union_are_refused(call: Any, name: str) -> None:
    trades, quotes = job().source("trades"), job().source("quotes")
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'wrong'\. It takes: "):
        call(trades, quotes, wrong=1)
    with pytest.raises(InvalidJobError, match=rf"^Stream\.{name}: .* and the left is a union\. Make it one step"):
        call(trades.union(quotes), quotes)
    with pytest.raises(InvalidJobError, match=r"and the right is a union\."):
        call(trades, quotes.union(trades))
    with pytest.raises(InvalidJobError, match=rf"^Stream\.{name}: select: an expression needs a name"):
        call(trades, quotes, select="left.price + 1")


def test_a_join_of_a_stream_with_itself_runs() -> None:
    trades = job().source("trades")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"symbol": "a", "price": price, "at": start + timedelta(seconds=price)} for price in (1, 2, 5)]
    earlier = trades.as_of_join(
        trades, on="symbol", strictly=True, select=["left.price", "right.price AS before"], name="earlier"
    )
    found = run_graph(job().output("earlier", earlier, Sink.parquet("out")), {"trades": rows, "quotes": []})
    assert sorted((row["price"], row["before"]) for row in found.table("earlier")) == [(2, 1), (5, 2)]
