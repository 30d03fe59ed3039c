"""A result that does not fit its type: the error says of which step, and of which of its outputs, it is."""

from decimal import Decimal
from typing import Any

import pytest

from mixedmode import Job, Source
from mixedmode.errors import InvalidJobError
from mixedmode.testing import run_graph

HUGE = "decimal(38, 0)"
LONGS, DECIMALS = [2**63 - 1, 1], [Decimal(10**38 - 1), Decimal(1)]
CALLS = pytest.mark.parametrize(
    ("call", "ddl", "values"),
    [
        ("sum(v)", "bigint", LONGS),
        ("sum(v)", HUGE, DECIMALS),
        ("avg(v)", HUGE, DECIMALS),
        ("sum(v) filter (where p)", "bigint", LONGS),
        ("avg(v) filter (where p)", HUGE, DECIMALS),
    ],
)


def plain(rows: Any, **calls: str) -> Any:
    return rows.key_by("k").aggregate(**calls)


def windowed(rows: Any, **calls: str) -> Any:
    return rows.key_by("k").window(tumbling="1h").aggregate(**calls)


def sessions(rows: Any, **calls: str) -> Any:
    return rows.key_by("k").window(session="1h").aggregate(**calls)


def counted(rows: Any, **calls: str) -> Any:
    return rows.key_by("k").window(count=2).aggregate(**calls)


def after_changes(rows: Any, **calls: str) -> Any:
    return rows.key_by("k", "v").aggregate(p="max(p)").key_by("k").aggregate(**calls)


def after_changes_kept_whole(rows: Any, **calls: str) -> Any:
    return after_changes(rows, **{**calls, "greatest": "max(v)"})


@CALLS
@pytest.mark.parametrize(
    ("build", "step"),
    [(plain, 0), (windowed, 0), (sessions, 0), (counted, 0), (after_changes, 1), (after_changes_kept_whole, 1)],
)
def test_the_error_names_the_step_and_the_output(build: Any, step: int, call: str, ddl: str, values: list[Any]) -> None:
    source = Source.json("/nowhere", schema=f"k string, v {ddl}, p boolean, at timestamp", event_time="at")
    rows = Job("j", sources={"t": source}, mode="batch")
    built = build(rows, first="count(*)", small="max(v)", wrong=call)
    given = [{"k": "a", "v": value, "p": True, "at": 0} for value in values]
    with pytest.raises(InvalidJobError) as told:
        run_graph(built, {"t": given})
    function = call[:3]
    assert str(told.value).startswith(f"steps[{step}].aggregate.wrong: {function} is too large for its result type, ")
    assert str(told.value).endswith("keys_affected=1")
