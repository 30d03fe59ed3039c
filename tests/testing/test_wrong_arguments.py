"""Wrong arguments of harnesses are refused by name, and never with an error of the code inside."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mixedmode.errors import CorruptStateError, InvalidJobError
from mixedmode.job import Job, Source
from mixedmode.process import KeyedCoProcessFunction
from mixedmode.testing import (
    AggregateHarness,
    ApplyChangesHarness,
    DeduplicateHarness,
    FunctionHarness,
    MapHarness,
    OverHarness,
    TopHarness,
    run_graph,
)
from tests.testing.functions import Totals, totals
from tests.testing.test_maps import Where

SCHEMA = "k string, v bigint, t timestamp"
EVERY: Mapping[str, Any] = {
    "parallelism": 1,
    "max_parallelism": 8,
    "out_of_orderness": "1s",
    "clock": 0,
    "backlog": False,
    "slices": 1,
    "end_of_key_watermark": "greatest",
    "backlog_emit": "final",
    "sort_memory": "1MB",
    "event_time": "t",
}
#: none of them is right for any argument below
WRONG: list[Any] = [1.5, "no such", ["no such"], {"no such": 5}, {5: "no"}, object(), b"x", {"k"}]


class Pairs(KeyedCoProcessFunction):
    """Sees two inputs, and emits nothing."""


MADE: list[tuple[Callable[..., Any], Mapping[str, Any]]] = [
    (AggregateHarness, {"aggregate": {"n": "count(*)"}, "schema": SCHEMA, "key_by": "k", **EVERY}),
    (AggregateHarness, {"aggregate": {"n": "count(*)"}, "schema": SCHEMA, "window": {"tumbling": "1h"}, **EVERY}),
    (DeduplicateHarness, {"keep": "first", "tie_break": "v", "within": "1h", "schema": SCHEMA, "key_by": "k", **EVERY}),
    (OverHarness, {"columns": {"n": "rank()"}, "tie_break": "v", "schema": SCHEMA, "key_by": "k", **EVERY}),
    (
        ApplyChangesHarness,
        {
            "changes": {"history": True},
            "sequence_by": "v",
            "schema": SCHEMA,
            "key_by": "k",
            **{name: value for name, value in EVERY.items() if name not in ("event_time", "out_of_orderness")},
        },
    ),
    (TopHarness, {"n": 2, "order_by": "v", "schema": SCHEMA, "key_by": "k", **EVERY}),
    (
        FunctionHarness,
        {
            "function": Totals,
            "key_by": "k",
            "schema": SCHEMA,
            "output": "k string, total bigint",
            "args": {},
            "outputs": {"large": "k string"},
            "on_error": "fail",
            **EVERY,
        },
    ),
    (FunctionHarness, {"function": Pairs, "key_by": "k", "schema": (SCHEMA, SCHEMA), "output": "k string", **EVERY}),
    (
        MapHarness,
        {
            "function": Where,
            "schema": "v bigint",
            "output": "n bigint",
            "args": {},
            "parallelism": 1,
            "clock": 0,
            "backlog": False,
        },
    ),
]


@pytest.mark.parametrize(("make", "arguments"), MADE)
def test_each_argument_with_a_wrong_value_is_refused(make: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    make(**arguments)
    for name in arguments:
        for wrong in WRONG:
            refusals = (InvalidJobError, TypeError) if name == "window" and type(wrong) is dict else InvalidJobError
            with pytest.raises(refusals):
                make(**{**arguments, name: wrong})


@pytest.mark.parametrize("call", ["advance_clock", "advance_watermark", "side", "restore", "feed"])
def test_each_call_with_a_wrong_value_is_refused(call: str) -> None:
    for wrong in [*WRONG, None]:
        refusals = CorruptStateError if wrong == b"x" and call == "restore" else InvalidJobError
        with pytest.raises(refusals):
            getattr(totals(), call)(wrong)


@pytest.mark.parametrize("wrong", WRONG)
def test_another_parallelism_has_to_be_a_number(wrong: Any) -> None:
    for harness in (totals(), MapHarness(Where, schema="v bigint", output="n bigint")):
        with pytest.raises(InvalidJobError, match="parallelism must be a whole number"):
            harness.restore(harness.snapshot(), parallelism=wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: totals(parallelism="2"), "FunctionHarness: parallelism must be a whole number, not text. found=2"),
        (lambda: totals(backlog="yes"), "FunctionHarness: backlog must be True or False, not text. found=yes"),
        (lambda: totals(args=["x"]), "FunctionHarness: args must be a dictionary by name. found=list"),
        (
            lambda: FunctionHarness(Totals, key_by={"k"}, schema=SCHEMA, output="k string"),  # type: ignore[arg-type]
            "FunctionHarness: key_by must be one column or a list of columns. found={'k'}",
        ),
        (
            lambda: FunctionHarness(Totals, key_by=["k", "k"], schema=SCHEMA, output="k string"),
            "FunctionHarness: key_by has a column twice. Name it once. found=['k', 'k']",
        ),
        (
            lambda: FunctionHarness(Pairs, key_by="k", schema=(SCHEMA,), output="k string"),
            f"FunctionHarness: schema must be columns, or a pair of them for two inputs. found=({SCHEMA!r},)",
        ),
        (
            lambda: MapHarness(5, schema=SCHEMA, output="k string"),  # type: ignore[arg-type]
            (
                "MapHarness: function must be a class, its name as package.module:Class, or an object of such a class. "
                "found=int"
            ),
        ),
        (
            lambda: MapHarness(Where, schema={}, output="k string"),
            (
                "MapHarness: schema must be columns: as Spark's DDL, such as 'user string, clicks bigint', as a "
                "dictionary of names and types, or as a pyarrow.Schema. found={}"
            ),
        ),
        (lambda: totals().restore(None), "restore: snapshot must be what snapshot() returned. found=NoneType"),  # type: ignore[arg-type]
    ],
)
def test_the_message_names_the_argument(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        make()
    assert str(caught.value) == message


def counted() -> Job:
    source = Source.parquet("in", schema=SCHEMA, event_time="t")
    return Job("counted", sources={"rows": source}, mode="batch").key_by("k").aggregate(n="count(*)")


@pytest.mark.parametrize("name", ["job", "inputs", "live", "schemas", "clock"])
def test_each_argument_of_a_whole_job_with_a_wrong_value_is_refused(name: str) -> None:
    for wrong in [*WRONG, {"rows": 5}, {"rows": ["x"]}, counted().key_by("k"), [None]]:
        with pytest.raises(InvalidJobError):
            run_graph(**{"job": counted(), "inputs": {}, name: wrong})


@pytest.mark.parametrize("wrong", [*WRONG, None])
def test_an_output_of_a_whole_job_has_a_name(wrong: Any) -> None:
    outputs = run_graph(counted(), {})
    for read in (outputs.table, outputs.changes, outputs.__getitem__):
        with pytest.raises(InvalidJobError):
            read(wrong)
