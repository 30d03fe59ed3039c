"""All mistakes of a job are one report: those of YAML, of SQL and of columns; and none that only follows."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import pytest
from pyspark.sql import SparkSession

from tests.cli.shell import command
from tests.harness import write_text

pytestmark = pytest.mark.spark

JOB = """\
name: shops
execution:
  runtime-mode: mixed
  checkpointing: {dir: ./checkpoints, interval: 5s}
parallelism: 2
spark: {master: "local[2]"}
sources:
  sales:
    format: json
    path: in
    schema: "k string, v long, at timestamp, w long"
    event-time: at
  returns:
    format: json
    path: in
    schema: "k string, v long, at timestamp, w long"
    event-time: at
steps:
  - sql: SELECT k, v, at FROM sales WHERE v > 0
    name: positive
  - key-by: [k]
    window: {tumbling: 1h}
    aggregate:
      n: count(*)
      mean: avg(v)
      most: max(v)
    having: n > 0
  - sql: SELECT k, window_start, window_end, n FROM previous WHERE n > 1
sink:
  format: parquet
  path: out
"""
#: {the place of the mistake: (text of the job, the text with the mistake)}
MISTAKES = MappingProxyType(
    {
        "name": ("name: shops", "name: 7"),
        "execution.runtime-mod": ("runtime-mode", "runtime-mod"),
        "execution.checkpointing.interval": ("interval: 5s", "interval: 5 sec"),
        "parallelism": ("parallelism: 2", "parallelism: 200"),
        "sources.sales.event-time": ("event-time: at\n  returns", "event-time: ad\n  returns"),
        "sources.returns": (
            'w long"\n    event-time: at\nsteps',
            'w lng"\n    event-time: at\nsteps',
        ),
        "sources.returns.evnt-time": ("event-time: at\nsteps", "evnt-time: at\nsteps"),
        "steps[0].sql": ("v > 0", "v >"),
        "steps[0].nme": ("    name: positive", "    nme: positive"),
        "steps[1].key-by": ("key-by: [k]", "key-by: [kk]"),
        "steps[1].aggregate.mean": ("avg(v)", "avg(k)"),
        "steps[1].aggregate.most": ("max(v)", "max(vv +)"),
        "steps[1].aggregate.n": ("count(*)", "cnt(*)"),
        "steps[1].window.tumbling.size": ("{tumbling: 1h}", "{tumbling: an hour}"),
        "steps[1].parallelism": ("    window: {tumbling: 1h}", "    window: {tumbling: 1h}\n    parallelism: many"),
        "steps[1].having": ("having: n > 0", "having: 0"),
        "steps[2].sql": ("n > 1", "(n > 1"),
        "sink.pth": ("  path: out", "  pth: out"),
    }
)  # fmt: skip
_PLACE = re.compile(r"job\.yaml:(\d+): (\S+?):? ")


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_mistakes(*places: str) -> str:
    text = JOB
    for place in places:
        right, wrong = MISTAKES[place]
        assert text.count(right) == 1, place
        text = text.replace(right, wrong)
    return text


def places_told(text: str) -> list[str]:
    """The places that `mixedmode validate` names for a job file with this text, in its order."""
    write_text(Path(), "job.yaml", text)
    result = command("validate", "job.yaml")
    assert result.exit_code == 2, result.output
    kind, *told = result.stderr.rstrip().splitlines()
    assert kind == "error InvalidJobError"
    found = [_PLACE.match(line) for line in told]
    assert all(found), told
    numbers = [int(match[1]) for match in found if match is not None]
    assert numbers == sorted(numbers), told
    return [match[2] for match in found if match is not None]


def in_the_order_of_the_file(places: Sequence[str]) -> list[str]:
    return sorted(places, key=lambda place: JOB.index(MISTAKES[place][0]))


def excluded(one: str, other: str) -> bool:
    """Return whether two mistakes cannot be in one file, or the first one hides the second."""
    return (one, other) in {
        ("sources.returns", "sources.returns.evnt-time"),  # the same lines
        ("steps[1].window.tumbling.size", "steps[1].parallelism"),
        ("execution.runtime-mod", "parallelism"),  # how many subtasks are allowed is a joint matter of both sections
        ("execution.checkpointing.interval", "parallelism"),
        # the input of a step is not known after a wrong step, so only its syntax is checked
        ("steps[0].sql", "steps[1].key-by"),
        ("steps[0].sql", "steps[1].aggregate.mean"),
    }


def test_the_job_without_mistakes_is_valid(folder: Path) -> None:
    write_text(folder, "job.yaml", JOB)
    result = command("validate", "job.yaml")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("place", MISTAKES)
def test_a_mistake_is_told_once_without_errors_that_follow_from_it(folder: Path, place: str) -> None:
    assert places_told(with_mistakes(place)) == [place]


def test_wrong_functions_are_all_told_and_the_sql_that_calls_them_is_not(folder: Path) -> None:
    write_text(folder, "own.py", "def right(v: int) -> int:\n    return v\n\ndef untyped(v):\n    return v\n")
    functions = "functions: {first: own:untyped, second: own:none_such, third: own:right}\nsources:\n"
    text = JOB.replace("sources:\n", functions, 1)
    text = text.replace("avg(v)", "avg(\n        second (third(v)))").replace(
        "SELECT k, v, at", "SELECT third(v) AS v, k, at"
    )
    in_source = text.replace(
        "    event-time: at\n  returns", "    event-time: at\n    computed-columns: {x: FIRST(v)}\n  returns"
    )
    assert places_told(text) == places_told(in_source) == ["functions.first", "functions.second"]
    wrong = text.replace("n > 1", "(n > 1").replace("third(v) AS", "thrd(v) AS")
    assert places_told(wrong) == ["functions.first", "functions.second", "steps[0].sql", "steps[2].sql"]


def groups() -> list[list[str]]:
    """Return groups of up to six mistakes that can be in one file. Every two that can be are together in some group."""
    places = list(MISTAKES)
    left = {frozenset(two) for two in combinations(places, 2) if not excluded(*two)}
    found = []
    while left:
        group = sorted(min(left, key=lambda two: sorted(map(places.index, two))), key=places.index)
        while len(group) < 6:
            new = {place: len(left & {frozenset((place, one)) for one in group}) for place in fitting(group)}
            best = max(new, key=lambda place: new[place], default="")
            if not best or not new[best]:
                break
            group.append(best)
        left -= set(map(frozenset, combinations(group, 2)))
        found.append(group)
    return found


def fitting(group: Sequence[str]) -> list[str]:
    """Return the mistakes that can be in one file with these, so that none hides another."""
    others = [place for place in MISTAKES if place not in group]
    return [place for place in others if not any(excluded(place, one) or excluded(one, place) for one in group)]


@pytest.mark.parametrize("group", groups(), ids=" and ".join)
def test_mistakes_that_do_not_depend_on_each_other_are_one_report(folder: Path, group: list[str]) -> None:
    assert places_told(with_mistakes(*group)) == in_the_order_of_the_file(group)


def test_a_mistake_that_another_one_hides_is_told_after_that_is_corrected(folder: Path) -> None:
    for two in filter(lambda two: excluded(*two), combinations(MISTAKES, 2)):
        if two[1] not in {"sources.returns.evnt-time", "steps[1].parallelism"}:
            told = places_told(with_mistakes(*two))
            assert len(told) == 1, two
            assert told[0] in two


def test_all_mistakes_at_once_are_one_report(folder: Path) -> None:
    every = [place for place in MISTAKES if place not in {"sources.returns", "parallelism", "steps[1].parallelism"}]
    hiding = {"steps[1].key-by", "steps[1].aggregate.mean", "steps[0].sql"}
    every = [place for place in every if place not in hiding]
    assert places_told(with_mistakes(*every)) == in_the_order_of_the_file(every)
