"""The section `join` of a step: what its texts mean, and what is refused."""

from typing import Any

import pytest

from mixedmode.config import JobSpec, JoinStep
from mixedmode.config.joins import Selected
from mixedmode.config.two_inputs import NamedInput
from tests.config.refusals import messages

INPUTS = {"left": "trades", "right": "quotes", "on": "symbol"}
AS_OF = {**INPUTS, "as-of": {}}


def join(**given: Any) -> JoinStep:
    return JoinStep.model_validate({"join": AS_OF | given})


def complaints(**given: Any) -> list[str]:
    values = AS_OF | {key.replace("_", "-"): value for key, value in given.items()}
    return messages(JoinStep, {"join": {key: value for key, value in values.items() if value is not None}})


@pytest.mark.parametrize("section", ["join", "co-process", "co-group"])
def test_from_is_told_where_a_step_with_two_inputs_names_them(section: str) -> None:
    found = messages(JobSpec, job(steps=[{"from": ["trades", "quotes"], section: {"on": "symbol"}}]))
    said = "is for other steps: this one names its two inputs itself, as `left` and `right`. Remove it."
    assert f"steps[0].from {said}" in found


def test_inputs_may_have_another_name_in_the_join() -> None:
    assert join().join.inputs == (NamedInput("trades", "trades"), NamedInput("quotes", "quotes"))
    assert join(left="trades AS t", right="trades as u").join.inputs == (
        NamedInput("trades", "t"),
        NamedInput("trades", "u"),
    )
    assert join(left="trades AS t").from_ == ("trades", "quotes")


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("symbol", ("symbol", "symbol")),
        ("symbol = ticker", ("symbol", "ticker")),
        ("trades.symbol = quotes.ticker", ("symbol", "ticker")),
        ("quotes.ticker=trades.symbol", ("symbol", "ticker")),
        ("QUOTES.ticker = symbol", ("symbol", "ticker")),
        ("symbol = quotes.ticker", ("symbol", "ticker")),
        ("trades.`a b` = quotes.`c``d`", ("a b", "c`d")),
    ],
)
def test_an_entry_of_on_is_one_column_of_each_input(text: str, pair: tuple[str, str]) -> None:
    assert join(on=text).join.equal_columns == (pair,)


@pytest.mark.parametrize("text", ["trades.symbol", "upper(symbol)", "trades.a = trades.b", "a = b = c", "a > b"])
def test_any_other_entry_of_on_is_refused(text: str) -> None:
    (message,) = complaints(on=text)
    assert message.startswith("join.on compares columns of the two inputs.")
    assert message.endswith(f"found={text}")


@pytest.mark.parametrize("text", ["1", "true", "FALSE", "null", "Null"])
def test_a_constant_in_select_is_an_expression(text: str) -> None:
    (found,) = join(select=[f"{text} AS flag"]).join.selected
    assert (found.expression, found.name, found.column) == (text, "flag", None)
    (quoted,) = join(select=[f"`{text}` AS flag"]).join.selected
    assert (quoted.column, quoted.expression) == (text, None)


def test_an_entry_of_select_is_a_column_or_an_expression() -> None:
    found = join(select=["trades.*", "bid", "quotes.ask AS asked", "ask - bid AS spread"]).join.selected
    assert found == (
        Selected("trades.*", input="trades", column="*"),
        Selected("bid", column="bid"),
        Selected("quotes.ask AS asked", input="quotes", column="ask", name="asked"),
        Selected("ask - bid AS spread", expression="ask - bid", name="spread"),
    )


@pytest.mark.parametrize(
    ("given", "begin"),
    [
        ({"within": ["0s", "1s"]}, "join has as-of and within, which say in two ways"),
        ({"type": "full"}, "join.type is inner or left with as-of"),
        ({"condition": "a > b"}, "join.condition: with as-of, it could mean the last row of the right that meets it"),
        ({"as_of": None, "late": {"left": {"format": "console"}}}, "join.late: no row is late for a join without"),
        ({"event_time": "at"}, "join.event-time is for the pairs of a join with within"),
        ({"as_of": None, "within": ["1h", "-1h"]}, "join.within begins after its end"),
        ({"as_of": None, "within": "1h"}, "join.within: write two durations"),
        ({"as_of": None, "within": [5, 10]}, "join.within: this is not a duration"),
        ({"as_of": None, "within": ["0s", "40000d"]}, "join.within is longer than event times can be moved"),
        ({"right": "trades"}, "join.right: both inputs have this name"),
        ({"left": "a b c"}, "join.left names no input"),
        ({"select": "others.a"}, "join.select: there is no input of this name. Known here: trades, quotes."),
        ({"select": "trade.a"}, "join.select: there is no input of this name. Did you mean trades?"),
        ({"on": "others.a = quotes.b"}, "join.on: there is no input of this name. Known here: trades, quotes."),
        ({"on": "a = `quote`.b"}, "join.on: there is no input of this name. Did you mean quotes?"),
        ({"select": "trades.* AS all"}, "join.select: all columns cannot have one name"),
        ({"select": "ask - bid"}, "join.select: an expression needs a name"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], begin: str) -> None:
    (message,) = complaints(**given)
    assert message.startswith(begin), message


def test_bounds_are_written_as_they_are_read() -> None:
    step = JoinStep.model_validate({"join": {**INPUTS, "within": ["-1h30m", "0s"]}})
    assert step.join.within == (-5_400_000, 0)
    written = step.model_dump(by_alias=True, exclude_defaults=True)
    assert written["join"]["within"] == ["-1h30m", "0s"]
    assert JoinStep.model_validate(written) == step


def job(*, event_time: str | None = "at", steps: list[dict[str, Any]]) -> dict[str, Any]:
    source = {"format": "parquet", "path": "in", **({"event-time": event_time} if event_time else {})}
    return {
        "name": "priced",
        "execution": {"checkpointing": {"dir": "cp"}},
        "sources": {"trades": source, "quotes": source | {"path": "other"}},
        "steps": steps,
        "sink": {"format": "parquet", "path": "out"},
    }


def test_a_join_needs_event_times_and_inputs_that_do_not_change() -> None:
    (first, second) = messages(JobSpec, job(event_time=None, steps=[{"join": AS_OF}]))
    assert first.startswith("sources.trades.event-time is missing: the join goes by the time of a record.")
    assert second.startswith("sources.quotes.event-time is missing")
    totals = {"name": "totals", "from": "quotes", "key-by": "symbol", "aggregate": {"n": "count(*)"}}
    (message,) = messages(JobSpec, job(steps=[totals, {"join": AS_OF | {"right": "totals"}}]))
    assert message.startswith("steps[1].join cannot read the rows of the aggregate in steps[0], which change")


def test_pairs_have_an_event_time_only_if_the_join_names_it() -> None:
    within = {"left": "trades", "right": "quotes", "on": "symbol", "within": ["0s", "1h"]}
    windows = {"key-by": "symbol", "window": {"tumbling": "1m"}, "aggregate": {"n": "count(*)"}}
    for after in (windows, {"join": AS_OF | {"left": "pairs"}}):
        (message,) = messages(JobSpec, job(steps=[{"name": "pairs", "join": within}, after]))
        assert (
            "by event time, and the rows of the join before it have none. Add `event-time` to steps[0].join" in message
        )
    for own in ({"event-time": "both"}, {"type": "semi"}):
        given = job(steps=[{"name": "pairs", "join": within | own}, windows])
        assert len(JobSpec.model_validate(given).steps) == 2


def test_an_unknown_input_has_its_place_and_a_suggestion() -> None:
    (message,) = messages(JobSpec, job(steps=[{"join": AS_OF | {"right": "qotes"}}]))
    assert message.startswith("steps[0].join.right: there is no source or step of this name. Did you mean quotes?")


def test_a_join_may_read_one_input_twice() -> None:
    given = job(steps=[{"join": AS_OF | {"right": "trades AS other"}}])
    del given["sources"]["quotes"]
    assert JobSpec.model_validate(given).graph.inputs == ((("sources", "trades"), ("sources", "trades")),)
