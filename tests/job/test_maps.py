"""Steps with map in Python, in the plan, and in words. No Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from mixedmode.checkpoint.types import Redistribution
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.operators.classes import NamedClass
from mixedmode.operators.map import MAP_FUNCTION, MapOperator
from mixedmode.plan.explain import explain_plan
from mixedmode.plan.job_plan import JobPlan, ResultPlan
from mixedmode.plan.reads import Reads, SqlText
from mixedmode.plan.stages import MapStage
from mixedmode.process import MapFunction, Record

FIELDS = (pa.field("k", pa.string()), pa.field("v", pa.int64()))


class Same(MapFunction):
    """Gives what it is given."""

    def map_record(self, record: Record) -> Record:
        return record


pytestmark = pytest.mark.usefixtures("folder")


def lines(**settings: Any) -> Job:
    given = {"parallelism": 2, "max_parallelism": 4, "checkpoint_dir": "/c", **settings}
    return Job("a", sources={"s": Source.parquet("/s", event_time="at")}, **given)


def stage(name: str, redistribution: Redistribution = None, *, keeps_list: bool = True, sql: str = "") -> MapStage:
    reads = Reads(("sql-1",), (SqlText(sql, {"s": "s"}, "sql-1"),), ("s",)) if sql else Reads(("s",), sources=("s",))
    operator = MapOperator(name, NamedClass(MAP_FUNCTION, "a.b", "C"), FIELDS, FIELDS)
    return MapStage(name, reads, operator, keeps_list, redistribution)


def plan(*stages: MapStage) -> JobPlan:
    return JobPlan(
        stages=(),
        results={"": ResultPlan(Reads(("m",), sources=("m",)), FIELDS, ())},
        event_times={"s": "at"},
        sources_read=("s",),
        strategies={},
        side_sinks={},
        maps=stages,
    )


def test_a_map_step_in_python_is_the_one_of_a_file(folder: Path) -> None:
    job = (
        lines()
        .map("numbering:Numbering", output="id long, text string", args={"first": 1}, name="numbering", parallelism=3)
        .sql("SELECT id FROM numbering")
        .write(Sink.console())
    )
    expected = {
        "name": "numbering",
        "map": "numbering:Numbering",
        "folder": str(folder),
        "args": {"first": 1},
        "output": "id long, text string",
        "parallelism": 3,
    }
    assert job.spec.as_document()["steps"][0] == expected
    Path("job.yaml").write_text(job.to_yaml(), encoding="utf-8")
    assert yaml.safe_load(job.to_yaml())["steps"][0] == expected
    assert Job.from_file("job.yaml").spec == job.spec


def test_a_class_is_named_by_its_module_and_imported_from_where_it_came_from() -> None:
    (step,) = lines().map(Same, output="k string").steps
    found = step.model_dump()
    assert (found["map"], found["folder"]) == ("tests.job.test_maps:Same", str(Path(__file__).parents[2]))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("a.B", {}, "Job.map: function: this does not name a class. Write it as package.module:Class. found=a.B"),
        ("a:B", {"output": " "}, "Job.map: output must not be empty."),
        ("a:B", {"parallelism": 0}, "Job.map: parallelism must be at least 1. found=0"),
        ("a:B", {"name": "a.b"}, "Job.map: name: SQL reads it by its name, so the name is letters, digits and _,"),
        (
            type("Local", (), {"__module__": "__main__"}),
            {},
            "Job.map: Spark's tasks import the class, and this one cannot be imported. Define it at the top of",
        ),
    ],
)
def test_what_is_wrong_is_refused_at_the_call(function: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        lines().map(function, **{"output": "k string", **arguments})
    assert str(caught.value).startswith(message)


def test_only_a_list_makes_a_step_part_of_the_jobs_identity() -> None:
    """A function that keeps nothing may come and go, and so may its redistribution change."""
    stages = stage("map-1", keeps_list=False), stage("numbering", "split"), stage("counting")
    expected = {name: {"version": 1, "step": "map"} for name in ("numbering", "counting")}
    assert plan(*stages).fingerprints == expected
    assert plan(stage("numbering", "union"), stage("counting")).fingerprints == expected


@pytest.mark.parametrize(
    ("redistribution", "keeps_list", "state"),
    [
        ("split", True, "one list per subtask; when their number changes, the items are dealt out anew (split)"),
        ("union", True, "one list per subtask; each subtask is given the items of all (union)"),
        (None, True, "one list per subtask, which nobody else may have: their number must not change"),
        (None, False, "none"),
    ],
)
def test_a_map_step_is_explained(redistribution: Redistribution, keeps_list: bool, state: str) -> None:
    job = lines(backlog_parallelism=4).map("a.b:C", output="k string, v bigint", name="numbering")
    job = job.map("a.b:C", output="k string, v bigint", name="last", parallelism=4).write(Sink.console())
    stages = stage("numbering", redistribution, keeps_list=keeps_list, sql="SELECT *\nFROM s"), stage("last", "split")
    explained = explain_plan(job.spec, plan(*stages), cores=1).splitlines()
    assert explained[1:] == [
        "source s: parquet /s",
        "  event time  at; no watermark, because there is no keyed step",
        "map 1: numbering",
        "  sql         SELECT * FROM s",
        "              by Spark",
        "  exchange    dealt out to 2 subtasks, 4 in backlog, Arrow blocks",
        "  function    a.b:C, rows in no certain order",
        "  computes    k string, v int64",
        f"  state       {state}",
        "map 2: last",
        "  exchange    dealt out to 4 subtasks, Arrow blocks",
        "  function    a.b:C, rows in no certain order",
        "  computes    k string, v int64",
        "  state       one list per subtask; when their number changes, the items are dealt out anew (split)",
        "  rows go straight to the sink: no keyed step",
        "sink: console standard output",
        "  rows        each with _op and _epoch",
        "committed",
        "  backlog     nothing before the flip; one manifest at the flip: state runs, offsets, outputs",
        "  live        one manifest every 1s in which there is something new",
        "  outputs are published after their manifest, under names that a repeat of the epoch uses again",
    ]
