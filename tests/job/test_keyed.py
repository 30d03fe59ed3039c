"""Keyed steps in Python: windows and process functions say what a job file says, and refuse at the call."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.config import KeyedAggregateStep, ProcessStep, SessionSpec, job_spec_from_mapping
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, side_output

NOT_A_DURATION = (
    "this is not a duration. Write whole numbers with their units, largest unit first, such as 500ms, 1s, 10m, 1h, 2d "
    "or 1h30m, or a bare 0."
)

pytestmark = pytest.mark.usefixtures("folder")


def events() -> Job:
    return Job("a", sources={"s": Source.parquet("/s", event_time="at")}, checkpoint_dir="/c")


def spec_of_steps(*steps: dict[str, Any]) -> object:
    """The job of `events` with these steps, from a mapping."""
    return job_spec_from_mapping(
        {
            "name": "a",
            "sources": {"s": {"format": "parquet", "path": "/s", "event-time": "at"}},
            "execution": {"checkpointing": {"dir": "/c"}},
            "steps": list(steps),
            "sink": {"format": "console"},
        }
    )


def reread(job: Job) -> Job:
    Path("reread.yaml").write_text(job.to_yaml(), encoding="utf-8", newline="")
    return Job.from_file("reread.yaml")


@pytest.mark.parametrize(
    ("arguments", "window"),
    [
        ({"tumbling": "1h"}, {"tumbling": "1h"}),
        (
            {"tumbling": "1d", "offset": "6h", "time_zone": "Europe/Berlin"},
            {"tumbling": {"size": "1d", "offset": "6h", "time-zone": "Europe/Berlin"}},
        ),
        ({"sliding": "1h", "slide": "10m"}, {"sliding": {"size": "1h", "slide": "10m"}}),
        ({"session": "30m"}, {"session": {"gap": "30m"}}),
        ({"cumulating": "1d", "step": "1h", "slide": None}, {"cumulating": {"size": "1d", "step": "1h"}}),
        ({"count": 100}, {"global": {"count": 100}}),
    ],
)
def test_a_windowed_step_in_python_is_the_one_of_a_file(arguments: dict[str, Any], window: dict[str, Any]) -> None:
    keyed = events().key_by("k", name="per_k").window(**arguments).aggregate(n="count(*)").write(Sink.console())
    assert keyed.spec == spec_of_steps(
        {"name": "per_k", "key-by": "k", "window": window, "aggregate": {"n": "count(*)"}}
    )
    assert reread(keyed).spec == keyed.spec
    unkeyed = events().window(**arguments, name="all").aggregate({"odd name": "count(*)"}).write(Sink.console())
    assert unkeyed.spec == spec_of_steps({"name": "all", "window": window, "aggregate": {"odd name": "count(*)"}})
    assert reread(unkeyed).spec == unkeyed.spec


def test_an_aggregate_over_all_rows_in_python_is_the_one_of_a_file() -> None:
    steps = events().aggregate({"name": "count(*)"}, name="totals", having="s > 1", s="sum(v)").write(Sink.console())
    assert steps.spec == spec_of_steps(
        {"name": "totals", "aggregate": {"name": "count(*)", "s": "sum(v)"}, "having": "s > 1"}
    )
    assert reread(steps).spec == steps.spec
    of_stream = events().source("s").aggregate(name="totals", n="count(*)").step
    assert of_stream == events().aggregate(name="totals", n="count(*)").steps[0]


def test_an_output_in_python_has_the_key_of_a_file() -> None:
    chain = events().key_by("k").aggregate(n="count(*)").write(Sink.console(), key="n")
    assert chain.spec.results[""].key == ("n",)
    assert reread(chain).spec == chain.spec
    stream = events().source("s").key_by("k", name="counts").aggregate(n="count(*)")
    graph = events().output("counts", stream, Sink.console(), key=["n", "k"])
    assert graph.spec.as_document()["outputs"] == {"counts": {"format": "console", "from": "counts", "key": ["n", "k"]}}
    with_key = Sink.console().model_copy(update={"key": ("k",)})
    late = events().window(tumbling="1h", late=with_key).aggregate(n="count(*)")
    with pytest.raises(InvalidJobError, match=r"late'\]\['key'\] has no effect here: these rows are only added"):
        late.write(Sink.console()).spec  # noqa: B018
    with pytest.raises(InvalidJobError, match=r"key.* names a column twice. Remove one. found=N"):
        chain.write(Sink.console(), key=["n", "N"]).spec  # noqa: B018


def test_a_condition_on_results_in_python_is_the_one_of_a_file() -> None:
    steps = events().key_by("k").aggregate({"having": "count(*)"}, having="having > 1").write(Sink.console())
    assert steps.spec == spec_of_steps({"key-by": "k", "aggregate": {"having": "count(*)"}, "having": "having > 1"})
    assert reread(steps).spec == steps.spec


def test_a_window_says_what_becomes_of_late_and_of_open_ones(folder: Path) -> None:
    job = (
        events()
        .key_by("k")
        .window(tumbling="1h", allowed_lateness="5m", early_results_every="10s", late=Sink.parquet("late"))
        .aggregate(n="count(*)")
        .write(Sink.console())
    )
    assert job.spec.as_document()["steps"] == [
        {
            "key-by": ["k"],
            "window": {"tumbling": "1h"},
            "allowed-lateness": "5m",
            "early-results-every": "10s",
            "late": {"format": "parquet", "path": str(folder / "late")},
            "aggregate": {"n": "count(*)"},
        }
    ]
    assert reread(job).spec == job.spec


def test_a_windowed_job_is_not_changed_by_what_follows() -> None:
    windowed = events().key_by("k").window(session="1h")
    both = [windowed.aggregate(n="count(*)"), windowed.aggregate(m="max(x)")]
    steps = [step for job in both for step in job.steps if isinstance(step, KeyedAggregateStep)]
    assert [list(step.aggregate) for step in steps] == [["n"], ["m"]]
    assert {type(step.window.kind) for step in steps if step.window is not None} == {SessionSpec}


def test_top_and_deduplicate_in_python_are_those_of_a_file() -> None:
    job = (
        events()
        .key_by("k", name="best", parallelism=2)
        .top(3, order_by=["v desc nulls first", "coalesce(w, 0)"])
        .key_by("k", "v")
        .deduplicate(keep="last", tie_break="w")
        .write(Sink.console())
    )
    assert job.spec == spec_of_steps(
        {
            "name": "best",
            "key-by": "k",
            "parallelism": 2,
            "top": {"n": 3, "order-by": ["v desc nulls first", "coalesce(w, 0)"]},
        },
        {"key-by": ["k", "v"], "deduplicate": {"keep": "last", "tie-break": "w"}},
    )
    assert reread(job).spec == job.spec
    first = events().key_by("k").deduplicate(keep="first", within="1d").write(Sink.console())
    assert first.spec.as_document()["steps"] == [{"key-by": ["k"], "deduplicate": {"keep": "first", "within": "1d"}}]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda job: job.top(0, order_by="v"), "Job.top: n must be at least 1. found=0"),
        (
            lambda job: job.top(1, order_by=["v", "desc"]),
            "Job.top: order_by[1]: an order needs an expression before its direction. Write `price desc`. found=desc",
        ),
        (
            lambda job: job.deduplicate(keep="any", tie_break="v"),
            (
                "Job.deduplicate: tie_break has no effect with keep: any, which takes the first row that arrives. "
                "Remove it."
            ),
        ),
        (
            lambda job: job.deduplicate(keep="first", within="1"),
            f"Job.deduplicate: within: {NOT_A_DURATION} found=1",
        ),
    ],
)
def test_a_wrong_argument_of_top_or_deduplicate_is_named(build: Callable[[Any], Job], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        build(events().key_by("k"))
    assert str(caught.value) == message


def test_an_over_step_in_python_is_the_one_of_a_file() -> None:
    mean = "avg(v) rows between 9 preceding and current row"
    job = (
        events()
        .key_by("k", name="compared", parallelism=2)
        .over({"odd name": "LAG(v)", "tie_break": mean}, tie_break=["w", "v"], n="row_number()")
        .over(n="count(*)", name="all")
        .write(Sink.console())
    )
    columns = {"odd name": "lag(v)", "tie_break": mean, "n": "row_number()"}
    assert job.spec == spec_of_steps(
        {"name": "compared", "key-by": "k", "parallelism": 2, "over": {"columns": columns, "tie-break": ["w", "v"]}},
        {"name": "all", "over": {"columns": {"n": "count(*)"}}},
    )
    assert job.spec.as_document()["steps"][1] == {"name": "all", "over": {"columns": {"n": "count(*)"}}}
    assert reread(job).spec == job.spec
    assert events().source("s").over(n="row_number()").step == events().over(n="row_number()").steps[0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda job: job.over(), "Job.over: columns must hold at least one entry. Add one."),
        (
            lambda job: job.over("lag(v)"),
            'Job.over: each call needs the name of its column, as in over(n="count(*)"). found=lag(v)',
        ),
        (
            lambda job: job.over({"a": "lag(v)"}, a="lag(v)"),
            "Job.over: a column is given twice. Keep one of the two. columns=a",
        ),
        (
            lambda job: job.over(before="lag(v, 0)"),
            (
                "Job.over: before: lag takes how many rows before: a whole number from 1 to 1,000, as in lag(price, 2)."
                " found=lag(v, 0)"
            ),
        ),
        (lambda job: job.over(n=3), "Job.over: n must be text, such as count(*), not a whole number. found=3"),
        (
            lambda job: job.over(K="lag(v)"),
            "Job.over: K: a key column has this name already (case does not count). Choose another.",
        ),
        (
            lambda job: job.over(n="rank()", tie_break=["a", "A"]),
            "Job.over: tie_break names a column twice. Remove one. found=A",
        ),
    ],
)
def test_a_wrong_argument_of_over_is_named(build: Callable[[Any], Job], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        build(events().key_by("k"))
    assert str(caught.value) == message


def test_a_step_that_applies_changes_in_python_is_the_one_of_a_file() -> None:
    keyed = events().key_by("k", name="rows", parallelism=2)
    job = keyed.apply_changes(sequence_by="v", delete_when="w = 'd'", except_columns=["w"], history=True, track="at")
    own = {
        "sequence-by": ["v"],
        "delete-when": "w = 'd'",
        "except-columns": ["w"],
        "history": True,
        "track": ["at"],
    }
    complete = job.write(Sink.console())
    assert complete.spec == spec_of_steps({"name": "rows", "key-by": "k", "parallelism": 2, "apply-changes": own})
    assert complete.spec.as_document()["steps"][0]["apply-changes"] == own
    assert reread(complete).spec == complete.spec


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda job: job.apply_changes(sequence_by=[]),
            "Job.apply_changes: sequence_by must hold at least one entry. Add one.",
        ),
        (
            lambda job: job.apply_changes(sequence_by="v", track="w"),
            (
                "Job.apply_changes: track is about versions, which a table without history does not have. Add `history:"
                " true`."
            ),
        ),
        (
            lambda job: job.apply_changes(sequence_by="v", columns="a", except_columns="b"),
            "Job.apply_changes: except_columns and `columns` say the same in two ways. Remove one of them.",
        ),
    ],
)
def test_a_wrong_argument_of_apply_changes_is_named(build: Callable[[Any], Job], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        build(events().key_by("k"))
    assert str(caught.value) == message


def test_an_unknown_argument_of_apply_changes_is_named() -> None:
    with pytest.raises(TypeError, match="apply_changes"):
        events().key_by("k").apply_changes(sequence_by="v", deletes="w")  # type: ignore[call-arg]


def test_a_process_step_in_python_is_the_one_of_a_file(folder: Path) -> None:
    job = (
        events()
        .key_by("k", name="alerts")
        .process(
            "delays.alerts:Alerts",
            output="k string, worst long",
            args={"above": 15, "names": ("a", "no"), "nested": {"x.y": None}},
            outputs={
                "slow": side_output(Sink.json("slow"), schema="k string"),
                "seen": side_output(Sink.console(), schema="k string"),
            },
            on_error="dead-letter",
            dead_letter=Sink.parquet("failed"),
        )
        .write(Sink.console())
    )
    assert job.spec.as_document()["steps"] == [
        {
            "name": "alerts",
            "key-by": ["k"],
            "process": "delays.alerts:Alerts",
            "folder": str(folder),
            "args": {"above": 15, "names": ["a", "no"], "nested": {"x.y": None}},
            "output": "k string, worst long",
            "outputs": {
                "slow": {"format": "json", "path": str(folder / "slow"), "schema": "k string"},
                "seen": {"format": "console", "schema": "k string"},
            },
            "on-error": "dead-letter",
            "dead-letter": {"format": "parquet", "path": str(folder / "failed")},
        }
    ]
    assert reread(job).spec == job.spec
    file_step = yaml.safe_load(job.to_yaml())["steps"][0]
    del file_step["folder"]
    assert job.spec == spec_of_steps(file_step), "the current folder is where a mapping is imported from too"


def test_a_class_is_named_by_its_module_and_imported_from_where_it_came_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder / "code" / "delays_of_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class AtTop: pass\n")
    (package / "alerts.py").write_text("class Alerts:\n    class Inner: pass\n")
    monkeypatch.syspath_prepend(folder / "code")
    import delays_of_test.alerts  # type: ignore[import-not-found]

    found = [
        step
        for cls in (delays_of_test.AtTop, delays_of_test.alerts.Alerts, delays_of_test.alerts.Alerts.Inner)
        for step in events().key_by("k").process(cls, output="k string").steps
        if isinstance(step, ProcessStep)
    ]
    assert [step.process for step in found] == [
        "delays_of_test:AtTop",
        "delays_of_test.alerts:Alerts",
        "delays_of_test.alerts:Alerts.Inner",
    ]
    assert {step.folder for step in found} == {str(folder / "code")}


def test_a_built_in_class_is_imported_from_nowhere_in_particular(folder: Path) -> None:
    (step,) = events().key_by("k").process(dict, output="k string").steps
    assert isinstance(step, ProcessStep)
    assert (step.process, step.folder) == ("builtins:dict", str(folder))


def local_class() -> type:
    class Local:
        """Not to be found by its name."""

    return Local


def main_class() -> type:
    return type("Alerts", (), {"__module__": "__main__"})


def windowed(**arguments: Any) -> Callable[[], object]:
    return lambda: events().key_by("k").window(**arguments)


def processed(function: Any = "a:B", **arguments: Any) -> Callable[[], object]:
    return lambda: events().key_by("k").process(function, **{"output": "k string", **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            windowed(),
            "Job.window: a window is of one kind. Give one of tumbling, sliding, session, cumulating, count.",
        ),
        (
            windowed(tumbling="1h", count=3),
            (
                "Job.window: a window is of one kind. Give one of tumbling, sliding, session, cumulating, count. "
                "found=tumbling, count"
            ),
        ),
        (windowed(tumbling="1 hour"), f"Job.window: tumbling: {NOT_A_DURATION} found=1 hour"),
        (windowed(session=30), f"Job.window: session: {NOT_A_DURATION} found=30"),
        (windowed(count=0), "Job.window: count must be at least 1. found=0"),
        (
            windowed(sliding="1h"),
            "Job.window: slide is missing: time from the start of one window to the start of the next. Add it.",
        ),
        (
            windowed(sliding="1h", slide="2h"),
            (
                "Job.window: slide is more than size, so records between two windows would be lost. Make it at most "
                "size. size=1h, slide=2h"
            ),
        ),
        (
            windowed(cumulating="1d", step="7h"),
            "Job.window: step must divide size, so that the last window is whole. size=1d, step=7h",
        ),
        (
            windowed(tumbling="1d", time_zone="Mars"),
            (
                "Job.window: time_zone: this time zone is not known. Write its name in the IANA database, such as "
                "Europe/Berlin. found=Mars"
            ),
        ),
        (windowed(tumbling="1h", allowed_lateness=5), f"Job.window: allowed_lateness: {NOT_A_DURATION} found=5"),
        (
            windowed(count=3, late=Sink.console()),
            "Job.window: late has no effect on a global window, which does not end with time. Remove it.",
        ),
        (
            lambda: events().key_by("window_end").window(tumbling="1h"),
            (
                "Job.window: columns: the window adds a column of this name. Rename yours in a sql step before. "
                "found=window_end"
            ),
        ),
        (
            lambda: events().window(tumbling="1h").aggregate(window_start="count(*)"),
            (
                "Job.aggregate: window_start: a column of the window has this name already (case does not count). "
                "Choose another."
            ),
        ),
        (
            lambda: events().window(tumbling="1h").aggregate(),
            "Job.aggregate: outputs must hold at least one entry. Add one.",
        ),
        (
            processed("a.B"),
            "Job.process: function: this does not name a class. Write it as package.module:Class. found=a.B",
        ),
        (
            processed(local_class()),
            (
                "Job.process: Spark's tasks import the class, and this one cannot be imported. Define it at the top of "
                f"a module, and import it from there. found={__name__}:local_class.<locals>.Local"
            ),
        ),
        (
            processed(main_class()),
            (
                "Job.process: Spark's tasks import the class, and this one cannot be imported. Define it at the top of "
                "a module, and import it from there. found=__main__:Alerts"
            ),
        ),
        (processed(output=" "), "Job.process: output must not be empty."),
        (
            processed(args={"a": [math.nan]}),
            (
                "Job.process: args['a'][0] is nothing that a job file can hold. Make it of text, whole or finite "
                "numbers, true, false, lists and sections with names. found=nan"
            ),
        ),
        (
            processed(on_error="ignore"),
            "Job.process: on_error cannot be ignore. Known values: fail, skip, dead-letter.",
        ),
        (
            processed(on_error="dead-letter"),
            (
                "Job.process: dead_letter is missing: with on-error: dead-letter, failed records need a place. Add "
                "format and path."
            ),
        ),
        (
            processed(outputs={"a b": side_output(Sink.console(), schema="k string")}),
            (
                "Job.process: outputs['a b']: this name is letters, digits and _, and does not start with a digit. "
                "Choose another. found=a b"
            ),
        ),
        (
            lambda: events().key_by().process("a:B", output="k string"),
            "Job.process: columns must hold at least one entry. Add one.",
        ),
        (lambda: side_output(Sink.parquet("p"), schema=" "), "side_output: schema must not be empty."),
        (
            lambda: (
                events()
                .key_by("k")
                .aggregate(n="count(*)")
                .window(session="1h")
                .aggregate(n="count(*)")
                .write(Sink.console())
                .spec
            ),
            (
                "Job: steps[1]['window'] cannot read the rows of the aggregate in steps[0], which change and have no "
                "event time: a window fires once no row of it can change any more. Give the aggregate a window, put "
                "this step before it, or use an aggregate here."
            ),
        ),
        (
            lambda: (
                events()
                .window(session="1h", late=Sink.json("out"))
                .aggregate(n="count(*)")
                .write(Sink.json("./out"))
                .spec
            ),
            (
                "Job: steps[0]['late']['path']: sink.path has this folder, or one in it or around it, and a reader "
                "could not tell their rows apart. Choose another, outside of it. found={folder}/out, "
                "sink.path={folder}/out"
            ),
        ),
    ],
)
def test_a_mistake_is_reported_by_the_call_that_makes_it_under_the_name_of_the_argument(
    call: Callable[[], object], message: str, folder: Path
) -> None:
    with pytest.raises(InvalidJobError) as caught:
        call()
    assert str(caught.value) == message.replace("{folder}", str(folder))


def test_an_argument_that_windows_do_not_have_is_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match=r"^window\(\) got .* keyword argument 'tumbing'\. Did you mean tumbling\?$"):
        events().window(tumbing="1h")  # type: ignore[call-arg]


_durations_ms = st.integers(1, 10**9)
_single = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_text = st.text(st.characters(codec="utf-8"))
_line = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]))
_plain = st.recursive(
    _single | _text, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text.filter(bool), inner, max_size=3)
)


@st.composite
def keyed_jobs(draw: st.DrawFn) -> Job:
    """A job with a windowed step, or a process step, of any kind."""
    job = events().key_by("k", "l")
    if draw(st.booleans()):
        outputs = {"t": side_output(Sink.json("/t" + draw(_line)), schema="k string")} if draw(st.booleans()) else None
        return job.process(
            "a.b:C",
            output="k string",
            args=draw(st.dictionaries(_text.filter(str.strip), _plain, max_size=3)),
            outputs=outputs,
            on_error=draw(st.sampled_from([None, "fail", "skip"])),
        ).write(Sink.console())
    size_ms = draw(_durations_ms)
    kinds: dict[str, dict[str, Any]] = {
        "tumbling": {"tumbling": f"{size_ms}ms", "offset": f"{draw(st.integers(0, size_ms - 1))}ms"},
        "sliding": {"sliding": f"{size_ms}ms", "slide": f"{draw(st.integers(-(-size_ms // 9_999), size_ms))}ms"},
        "cumulating": {"cumulating": f"{size_ms * 7}ms", "step": f"{size_ms}ms"},
        "session": {"session": f"{size_ms}ms"},
        "days": {"tumbling": f"{size_ms % 300 + 1}d", "time_zone": "America/St_Johns"},
    }
    arguments = kinds[draw(st.sampled_from(sorted(kinds)))]
    arguments["allowed_lateness"] = draw(st.none() | st.just(0) | _durations_ms.map("{}ms".format))
    arguments["early_results_every"] = draw(st.none() | _durations_ms.map("{}ms".format))
    arguments["late"] = draw(st.none() | st.just(Sink.json("/late")))
    return job.window(**arguments).aggregate(n="count(*)").write(Sink.console())


@given(keyed_jobs())
def test_a_job_from_its_own_yaml_has_the_same_spec(tmp_path_factory: pytest.TempPathFactory, job: Job) -> None:
    path = tmp_path_factory.getbasetemp() / "keyed.yaml"
    path.write_text(job.to_yaml(), encoding="utf-8", newline="")
    assert Job.from_file(path).spec == job.spec
