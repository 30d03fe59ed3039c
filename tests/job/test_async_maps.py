"""Steps with async-map in YAML and in Python, in words, in the plan, and what is refused. No Spark."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from mixedmode.errors import InvalidJobError, RetryableError
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.explain import explain_plan
from mixedmode.process import AsyncMapFunction, Request
from mixedmode.queryable import read_state
from mixedmode.testing import run_graph
from mixedmode.testing.local_plan import local_plan
from tests.operators.async_map.services import Service
from tests.queryable.jobs import RunningJob, rows_of


class Lengths(AsyncMapFunction):
    """The length of k."""

    def __init__(self, more: int = 0) -> None:
        self.more = more

    async def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        return [{"n": len(request["k"]) + self.more, "key": request.idempotency_key} for request in requests]


class Silent(AsyncMapFunction):
    """Has no method call."""


class Blocking(AsyncMapFunction):
    """Its call is not asynchronous."""

    def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:  # type: ignore[override]
        return [{"n": 0} for _ in requests]


class Yielding(AsyncMapFunction):
    """Its call is a generator."""

    async def call(self, requests: Sequence[Request]) -> AsyncIterator[dict[str, Any]]:  # type: ignore[override]
        for _ in requests:
            yield {"n": 0}


class Broken(AsyncMapFunction):
    """Needs an argument."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def call(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        return [{"n": 0} for _ in requests]


OUTPUT = "n bigint, key string"
ROWS = [{"k": "a", "v": 1, "at": 0}, {"k": "bb", "v": 2, "at": 1}, {"k": "a", "v": 3, "at": 2}]


def events(tags: str = "array<string>", **settings: Any) -> Job:
    source = Source.parquet("/s", schema=f"k string, v bigint, tags {tags}, at timestamp", event_time="at")
    return Job("a", sources={"s": source}, **{"checkpoint_dir": "/c", **settings})


def explained(job: Job) -> list[str]:
    spec = job.write(Sink.parquet("/out")).spec
    return explain_plan(spec, local_plan(spec, job.where), cores=2).splitlines()


def test_a_step_in_python_is_the_one_of_a_file(folder: Path) -> None:
    job = (
        events()
        .key_by("k", name="asked", parallelism=3)
        .async_map(
            "geo:Locate",
            output="country string",
            args={"url": "http://localhost"},
            batch_size=10,
            capacity=5,
            timeout="2s",
            retries=0,
            backoff="1s",
            remember="30d",
            on_error="dead-letter",
            dead_letter=Sink.json("failed"),
        )
        .write(Sink.console())
    )
    expected = {
        "name": "asked",
        "key-by": ["k"],
        "async-map": "geo:Locate",
        "folder": str(folder),
        "args": {"url": "http://localhost"},
        "output": "country string",
        "batch-size": 10,
        "capacity": 5,
        "timeout": "2s",
        "retries": 0,
        "backoff": "1s",
        "remember": "30d",
        "on-error": "dead-letter",
        "dead-letter": {"format": "json", "path": str(folder / "failed")},
        "parallelism": 3,
    }
    assert job.spec.as_document()["steps"][0] == expected
    Path("job.yaml").write_text(job.to_yaml(), encoding="utf-8")
    assert yaml.safe_load(job.to_yaml())["steps"][0] == expected
    assert Job.from_file("job.yaml").spec == job.spec


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "Job.async_map: batch_size must be at least 1. found=0"),
        ({"capacity": 0}, "Job.async_map: capacity must be at least 1. found=0"),
        ({"timeout": 0}, "Job.async_map: timeout must be more than 0"),
        ({"retries": -1}, "Job.async_map: retries must be at least 0. found=-1"),
        ({"backoff": "soon"}, "Job.async_map: backoff: this is not a duration."),
        ({"remember": "0"}, "Job.async_map: remember must be more than 0"),
        ({"on_error": "ignore"}, "Job.async_map: on_error"),
        ({"on_error": "dead-letter"}, "Job.async_map: dead_letter is missing"),
        ({"dead_letter": Sink.json("f")}, "Job.async_map: dead_letter has no effect unless on-error is dead-letter."),
    ],
)
def test_what_is_wrong_is_refused_at_the_call(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        events().key_by("k").async_map(Lengths, output=OUTPUT, **arguments)
    assert str(caught.value).startswith(message)


def test_an_unknown_argument_is_a_mistake_of_the_call() -> None:
    with pytest.raises(TypeError, match="async_map\\(\\) got an unexpected keyword argument 'batchsize'"):
        events().key_by("k").async_map(Lengths, output=OUTPUT, batchsize=2)  # type: ignore[call-arg]


REFUSED: dict[str, tuple[Any, str]] = {
    "no call": (
        lambda job: job.key_by("k").async_map(Silent, output=OUTPUT),
        "steps[0].async-map: the class has no method call, so it cannot answer a request. Write `async def call`.",
    ),
    "a blocking call": (
        lambda job: job.key_by("k").async_map(Blocking, output=OUTPUT),
        "steps[0].async-map: the method call cannot be awaited, so a call would block all others. Write `async",
    ),
    "a call that yields": (
        lambda job: job.key_by("k").async_map(Yielding, output=OUTPUT),
        "steps[0].async-map: the method call cannot be awaited, so a call would block all others. Write `async",
    ),
    "a missing argument": (
        lambda job: job.key_by("k").async_map(Broken, output=OUTPUT),
        "steps[0].async-map: the arguments do not fit the async map function: missing a required argument: 'url'.",
    ),
    "another kind of class": (
        lambda job: job.key_by("k").async_map("tests.queryable.functions:Everything", output=OUTPUT),
        "steps[0].async-map: this is no async map function. Name a class that derives from mixedmode.process.AsyncMapF",
    ),
    "a column of the input": (
        lambda job: job.key_by("k").async_map(Lengths, output="n bigint, V string"),
        "steps[0].output: the input has a column of this name, and rows keep their columns. Choose another. column=V",
    ),
    "an array as the request": (
        lambda job: job.key_by("tags").async_map(Lengths, output=OUTPUT),
        "steps[0].key-by: a column of this type cannot be part of a key",
    ),
    "an unknown column": (
        lambda job: job.key_by("kk").async_map(Lengths, output=OUTPUT),
        "steps[0].key-by: there is no column kk. Did you mean k?",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_wrong_step_is_refused_with_its_place(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(InvalidJobError) as caught:
        explained(make(events()))
    assert message in str(caught.value)


def test_rows_that_change_are_refused_and_rows_of_windows_are_read() -> None:
    ask = partial(_asked, output="n bigint")
    with pytest.raises(InvalidJobError) as caught:
        ask(events().key_by("k").aggregate(rows="count(*)")).write(Sink.parquet("/out")).spec  # noqa: B018
    assert str(caught.value) == (
        "Job: steps[1]['async-map'] cannot read the rows of the aggregate in steps[0], which change and have no event "
        "time: a call cannot be undone when its row is retracted. Give the aggregate a window, put this step before "
        "it, or use an aggregate here."
    )
    windows = ask(events().key_by("k").window(tumbling="1h").aggregate(rows="count(*)"))
    assert "  emits       rows that never change, event time window_time" in explained(
        windows.key_by("n").aggregate(c="count(*)")
    )


def _asked(job: Job, *, output: str) -> Job:
    return job.key_by("k").async_map(Lengths, output=output)


def test_explain_says_how_the_service_is_called_and_what_is_kept() -> None:
    job = events().key_by("k").async_map(Lengths, output=OUTPUT, batch_size=5, retries=2, remember="30d")
    lines = explained(job)
    assert [
        line for line in lines if line.startswith(("  function", "  calls", "  sent", "  on error", "  state"))
    ] == [
        "  function    tests.job.test_async_maps:Lengths, asked once in an epoch for each key",
        "  calls       of 5 requests, at most 100 at a time in each subtask, 30s each",
        "  sent again  2 times, first after 100ms at most; all of them when an epoch is repeated, with the same keys",
        "  on error    fail: the job stops, and nothing of the epoch is committed",
        "  state       the answer of each key, for 30d; it is not asked for again",
    ]
    never = explained(events().key_by("k").async_map(Lengths, output=OUTPUT, retries=0))
    assert "  state       none: a request is sent in each epoch that has rows of it" in never
    assert any(line.startswith("  sent again  never") for line in never)


def test_the_rows_of_a_step_feed_others_and_are_fed_by_others() -> None:
    job = (
        events("string", parallelism=3)
        .key_by("k", "v")
        .deduplicate(keep="any")
        .key_by("k")
        .async_map(Lengths, output=OUTPUT, args={"more": 10})
        .key_by("n")
        .aggregate(rows="count(*)", total="sum(v)", keys="count(distinct key)")
        .write(Sink.parquet("/out"))
    )
    expected = [{"n": 11, "rows": 2, "total": 4, "keys": 1}, {"n": 12, "rows": 1, "total": 2, "keys": 1}]
    for inputs, live in ((ROWS + ROWS, []), (ROWS[:1], [ROWS[1:], ROWS])):
        assert run_graph(job, {"s": inputs}, live=[{"s": rows} for rows in live]).table() == expected


def test_a_job_runs_where_the_thread_has_an_event_loop_of_its_own() -> None:
    """As in a notebook."""
    job = events().key_by("k").async_map(Lengths, output=OUTPUT).write(Sink.parquet("/out"))

    async def cell() -> int:
        await asyncio.sleep(0)
        return len(run_graph(job, {"s": ROWS}).table())

    assert asyncio.run(cell()) == 3


def test_remembered_answers_are_read_from_outside(tmp_path: Path) -> None:
    number = Service.new_book()
    output = "upper string, nth bigint"

    def steps(job: Any) -> Any:
        return job.key_by("k", name="asked").async_map(Service, output=output, args={"book": number}, remember="1d")

    job = RunningJob(tmp_path, steps)
    job.epoch([{"k": key, "v": 1, "at": 0} for key in ("a", "b", None)])
    found = read_state(job.checkpoints, "asked")
    assert found.column_names == ["k", "upper", "nth", "_until"]
    assert rows_of(found.drop_columns("_until")) == [
        {"k": "a", "upper": "A", "nth": 1},
        {"k": "b", "upper": "B", "nth": 1},
        {"k": None, "upper": None, "nth": 1},
    ]
    assert len(set(found["_until"].to_pylist())) == 1
    assert read_state(job.checkpoints, "asked", keys=["b"]).num_rows == 1


def test_a_failed_call_keeps_its_kind_of_error() -> None:
    number = Service.new_book(fails=lambda _k, _sent: TimeoutError("slow"))
    job = events().key_by("k").async_map(Service, output="upper string, nth bigint", args={"book": number}, retries=0)
    with pytest.raises(RetryableError, match="a call of the service failed: TimeoutError: slow"):
        run_graph(job.write(Sink.parquet("/out")), {"s": ROWS})
