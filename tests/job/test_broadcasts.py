"""Broadcast inputs in job files and in Python: what is refused, what is said of them, and that both say the same."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mixedmode.config.load import job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.process import KeyedCoProcessFunction, KeyedProcessFunction
from mixedmode.testing import run_graph
from mixedmode.testing.local_plan import local_plan

START = datetime(2026, 1, 1, tzinfo=UTC)
OUTPUT = "k string, seen string"


class Rules(KeyedProcessFunction):
    """The rules in force at the time of each record."""

    def process_element(self, record: Any, context: Any) -> Iterator[dict[str, Any]]:
        rules = context.broadcast["rules"].as_of(context.timestamp)
        yield {"k": record["k"], "seen": " ".join(f"{name}{row['above']}" for name, row in sorted(rules.items()))}


class Both(KeyedCoProcessFunction):
    """The rules in force at the time of each record of either side."""

    def process_left(self, record: Any, context: Any) -> dict[str, Any]:
        return {"k": "left", "seen": str(len(context.broadcast["rules"].as_of(context.timestamp)))}

    def process_right(self, record: Any, context: Any) -> dict[str, Any]:
        return {**self.process_left(record, context), "k": "right"}


def started(**columns: str) -> Job:
    more = {"orders": "k string, at timestamp", "rules": "rule string, above bigint, gone boolean, at timestamp"}
    sources = {
        name: Source.parquet(f"/{name}", schema=ddl, event_time="at") for name, ddl in {**more, **columns}.items()
    }
    return Job("checked", sources=sources, checkpoint_dir="/c", parallelism=1)


def written(*, of_process: dict[str, Any] | None = None, **rules: Any) -> Job:
    made = started()
    broadcast = {"rules": made.source("rules").broadcast(**{"key": "rule", **rules})}
    keyed = made.source("orders").key_by("k")
    stream = keyed.process(Rules, output=OUTPUT, broadcast=broadcast, **(of_process or {}))
    return made.output("o", stream, Sink.parquet("/out"))


def explained(job: Job) -> str:
    return explain_plan(job.spec, local_plan(job.spec, job.where), cores=1)


@pytest.mark.parametrize(
    ("changed", "may_change"),
    [
        ({"tie_break": "above"}, True),
        ({"deleted": "gone"}, True),
        ({"tolerance": "5m"}, True),
        ({"history": "5m"}, True),
        ({"key": "above"}, False),
    ],
)
def test_other_settings_than_the_key_may_change_while_versions_are_stored(
    changed: dict[str, Any], may_change: bool
) -> None:
    before, after = (local_plan(job.spec, job.where).stages[0].fingerprint for job in (written(), written(**changed)))
    assert (before == after) == may_change


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def rule(name: str, above: int, minutes: int) -> dict[str, Any]:
    return {"rule": name, "above": above, "gone": False, "at": at(minutes)}


BACKLOG: dict[str, Any] = {
    "orders": [{"k": "a", "at": at(1)}, {"k": "b", "at": at(9)}],
    "rules": [rule("A", 1, 0), rule("B", 5, 8), rule("A", 2, 9)],
}
LIVE: dict[str, Any] = {
    "orders": [{"k": "a", "at": at(2)}, {"k": "a", "at": at(12)}],
    "rules": [rule("B", 6, 11), rule("C", 7, 30)],
}


def test_the_rules_of_a_record_are_those_of_its_time_and_late_records_have_an_output() -> None:
    job = written(of_process={"late": Sink.parquet("/late")})
    found = run_graph(job, BACKLOG, live=[LIVE])
    assert sorted((row["k"], row["seen"]) for row in found.table("o")) == [("a", "A1"), ("a", "A2 B6"), ("b", "A2 B5")]
    assert [row["at"] for row in found["process_1-late"]] == [at(2)]


def test_a_function_over_two_inputs_has_broadcast_inputs_and_late_outputs_too() -> None:
    made = started()
    orders, broadcast = made.source("orders"), {"rules": made.source("rules").broadcast(key=["rule"])}
    stream = orders.co_process(
        orders, on="k", function=Both, output=OUTPUT, broadcast=broadcast, late_right=Sink.parquet("/late")
    )
    found = run_graph(made.output("o", stream, Sink.parquet("/out")), BACKLOG, live=[LIVE])
    assert sorted((row["k"], row["seen"]) for row in found.table("o")) == [
        (side, count) for side in ("left", "right") for count in ("1", "2", "2")
    ]
    assert [row["at"] for row in found["co_process_1-late-right"]] == [at(2)]


def test_python_and_the_job_file_say_the_same() -> None:
    job = written(tie_break="above", tolerance="30d", deleted="gone", history="1d")
    assert job.spec.as_document()["steps"] == [
        {
            "name": "process_1",
            "from": ["orders"],
            "key-by": ["k"],
            "folder": job.spec.as_document()["steps"][0]["folder"],
            "output": OUTPUT,
            "broadcast": {
                "rules": {
                    "from": "rules",
                    "key": ["rule"],
                    "tie-break": ["above"],
                    "tolerance": "30d",
                    "deleted": "gone",
                    "history": "1d",
                }
            },
            "process": "tests.job.test_broadcasts:Rules",
        }
    ]
    assert job_spec_from_mapping(job.spec.as_document()) == job.spec


def test_explain_says_what_is_broadcast_and_what_waits() -> None:
    text = explained(written(tie_break="above", tolerance="30d", deleted="gone", history="1d"))
    assert (
        "broadcast   rules: the last row of rules for each rule, to every subtask; of one time the greatest by above; "
        "at most 30d old; a row with gone ends the one before; known for 1d before the record"
    ) in text
    assert "waits       a record is processed once the watermark of all inputs has passed its time" in text
    assert "late        rows before the watermark: those of orders are counted and dropped, those of rules are" in text
    assert "records that wait; the rows of broadcast inputs, once for each key group" in text


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"key": "nobody"}, r"^steps\[0\]\.broadcast\.rules\.key: rules has no column nobody"),
        ({"tie_break": "x"}, r"^steps\[0\]\.broadcast\.rules\.tie-break: rules has no column x"),
        ({"deleted": "above"}, r"^steps\[0\]\.broadcast\.rules\.deleted: it must be a boolean column\. .*type=int64"),
    ],
)
def test_a_wrong_column_is_refused_at_its_place(rules: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidJobError, match=text):
        explained(written(**rules))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"key": "more"}, r"broadcast\.rules\.key: a column of this type cannot be part of a key.* column=more"),
        ({"key": "rule", "tie_break": "more"}, r"broadcast\.rules\.tie-break: rows cannot be ordered .* column=more"),
    ],
)
def test_an_array_is_no_key_and_orders_no_rows(columns: dict[str, str], problem: str) -> None:
    made = started(rules="rule string, more array<int>, at timestamp")
    broadcast = {"rules": made.source("rules").broadcast(**columns)}
    stream = made.source("orders").key_by("k").process(Rules, output=OUTPUT, broadcast=broadcast)
    with pytest.raises(InvalidJobError, match=problem):
        explained(made.output("o", stream, Sink.parquet("/out")))


def refused(step: dict[str, Any], *earlier: dict[str, Any], **sources: Any) -> str:
    given = {
        "name": "checked",
        "execution": {"checkpointing": {"dir": "/c"}},
        "sources": {
            name: {"format": "parquet", "path": f"/{name}", "event-time": "at"} | sources.get(name, {})
            for name in ("orders", "rules")
        },
        "steps": [
            *earlier,
            {
                "from": "orders",
                "key-by": "k",
                "process": "m:C",
                "output": "k string",
                "broadcast": {"rules": {"from": "rules", "key": "rule"}},
                **step,
            },
        ],
        "sink": {"format": "console"},
    }
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(given)
    return str(caught.value)


def test_mistakes_in_a_job_file_are_refused_with_their_place() -> None:
    unknown = refused({"broadcast": {"rules": {"from": "ruls", "key": "rule"}}})
    assert "steps[0].broadcast.rules.from: there is no source or step of this name. Did you mean rules?" in unknown
    assert "steps[0].broadcast.rules.key is missing" in refused({"broadcast": {"rules": {"from": "rules"}}})
    late = refused({"broadcast": {}, "late": {"format": "parquet", "path": "/late"}})
    assert "steps[0].late: no record is late for a function without broadcast" in late
    untimed = refused({}, rules={"event-time": None})
    assert "sources.rules.event-time is missing: a process step with broadcast goes by the time of a record" in untimed
    changing = {"name": "totals", "from": "rules", "key-by": "rule", "aggregate": {"n": "count(*)"}}
    text = refused({"broadcast": {"rules": {"from": "totals", "key": "rule"}}}, changing)
    assert "steps[1].process cannot read the rows of the aggregate in steps[0], which change" in text


def test_a_chain_of_steps_cannot_read_a_stream() -> None:
    broadcast = {"rules": started().source("rules").broadcast(key="rule")}
    with pytest.raises(InvalidJobError, match="the step reads streams, so its steps belong to streams"):
        started().key_by("k").process(Rules, output=OUTPUT, broadcast=broadcast)
    with pytest.raises(TypeError, match=r"^broadcast\(\) got an unexpected keyword argument 'wrong'\."):
        started().source("rules").broadcast(key="rule", wrong=1)  # type: ignore[call-arg]


class Sorted(KeyedProcessFunction):
    """The key of each record, and how many rules there are at its time."""

    def process_element(self, record: Any, context: Any) -> dict[str, Any]:
        rules = context.broadcast["rules"].as_of(context.timestamp)
        return {"k": str(context.current_key), "seen": " ".join(f"{a}{b}" for a, b in sorted(rules))}


@pytest.mark.parametrize("keys", [["n"], ["n", "k"], ["at"], ["k", "n", "at"]])
def test_keys_of_one_and_of_several_columns_of_any_width(keys: list[str]) -> None:
    made = started(orders="k string, n bigint, at timestamp")
    broadcast = {"rules": made.source("rules").broadcast(key=["rule", "above"])}
    stream = made.source("orders").key_by(*keys).process(Sorted, output=OUTPUT, broadcast=broadcast)
    orders = [{"k": k, "n": n, "at": at(minutes)} for k, n, minutes in (("a", 1, 1), (None, None, 9), ("b", 2, 12))]
    live = {**LIVE, "orders": [{"k": "a", "n": 1, "at": at(20)}]}
    found = run_graph(made.output("o", stream, Sink.parquet("/out")), {**BACKLOG, "orders": orders}, live=[live])
    rows = sorted(found.table("o"), key=lambda row: str(row["seen"]))
    assert [row["seen"] for row in rows] == ["A1", "A1 A2 B5", "A1 A2 B5 B6", "A1 A2 B5 B6"]
    assert [row["k"] for row in rows if "None" in row["k"]] == ([] if keys == ["at"] else [rows[1]["k"]])
