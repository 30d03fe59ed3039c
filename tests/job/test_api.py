"""The Python API: it says what a job file says, checks at the call that is wrong, and never changes a job."""

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mixedmode.config import (
    AggregateCall,
    JobSpec,
    KeyedAggregateStep,
    RuntimeMode,
    SqlStep,
    job_spec_from_mapping,
    load_job,
)
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source
from mixedmode.job.arguments import AutoscalerArguments

FLIGHTS_DDL = "date timestamp, origin string, destination string, delay long, distance long"

pytestmark = pytest.mark.usefixtures("folder")


def airport_delays() -> Job:
    flights = Source.json("data/flights", schema=FLIGHTS_DDL, event_time="date", out_of_orderness="1h")
    return (
        Job(
            "airport-delays",
            sources={"flights": flights},
            mode="mixed",
            parallelism=2,
            checkpoint_dir="./run/checkpoints",
            checkpoint_interval="1s",
            interval_during_backlog=0,
        )
        .sql("SELECT * FROM flights WHERE distance > 100")
        .key_by("origin")
        .aggregate(flights="count(*)", mean_delay="avg(delay)", worst=AggregateCall.parse("max(delay)"))
        .write(Sink.parquet(Path("run") / "out"))
    )


def test_a_job_in_python_is_the_job_that_a_file_says(folder: Path) -> None:
    text = f"""\
name: airport-delays
execution: {{runtime-mode: mixed, interval-during-backlog: 0, checkpointing: {{interval: 1s, dir: ./run/checkpoints}}}}
parallelism: 2
sources:
  flights:
    format: json
    path: data/flights
    schema: "{FLIGHTS_DDL}"
    event-time: date
    watermark: {{out-of-orderness: 1h}}
steps:
  - sql: SELECT * FROM flights WHERE distance > 100
  - key-by: [origin]
    aggregate: {{flights: count(*), mean_delay: avg(delay), worst: max(delay)}}
sink: {{format: parquet, path: ./run/out}}
"""
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    from_file = Job.from_file("job.yaml")
    assert airport_delays().spec == from_file.spec == load_job("job.yaml").spec
    assert airport_delays() == from_file
    assert Job.from_file(folder / "job.yaml", ["parallelism=3"]).spec.parallelism == 3


#: in Python
EVERYTHING_OF_A_SOURCE: dict[str, Any] = {
    "schema": "a int",
    "event_time": "a",
    "out_of_orderness": "5s",
    "idle_timeout": "1m",
    "max_ahead": "2d",
    "partition_column": "p",
    "bounded": True,
    "options": {"recursiveFileLookup": True, "pathGlobFilter": "*;", "fs.s3a.connection.maximum": 5},
}
AUTOSCALER: AutoscalerArguments = {
    "min_parallelism": 2,
    "max_parallelism": 6,
    "target_utilization": 0.5,
    "target_lag": "10s",
    "target_throughput": 1000,
    "cool_down": "5m",
}
EXECUTION: dict[str, Any] = {
    "runtime-mode": "streaming",
    "interval-during-backlog": "1m",
    "checkpointing": {
        "interval": "2s",
        "dir": "s3://bucket/c",
        "num-retained": 5,
        "access": "umask",
        "tolerable-failed-checkpoints": 3,
        "timeout": "5m",
    },
    "backlog": {"parallelism": 8, "end-of-key-watermark": "max", "emit": "all"},
    "autoscaler": {
        "enabled": True,
        "min-parallelism": 2,
        "max-parallelism": 6,
        "target-utilization": 0.5,
        "target-lag": "10s",
        "target-throughput": 1000,
        "cool-down": "5m",
    },
}


def test_every_setting_of_a_job_file_has_an_argument(folder: Path) -> None:
    job = (
        Job(
            "all",
            sources={
                "p": Source.parquet("p", max_files_per_epoch=3, **EVERYTHING_OF_A_SOURCE),
                "j": Source.json("j", max_bytes_per_epoch="1GB", **EVERYTHING_OF_A_SOURCE),
                "c": Source.csv("c", **EVERYTHING_OF_A_SOURCE),
            },
            mode=RuntimeMode.STREAMING,
            parallelism=4,
            checkpoint_dir="s3://bucket/c",
            checkpoint_interval="2s",
            checkpoints_retained=5,
            checkpoint_access="umask",
            checkpoint_timeout="5m",
            tolerable_failed_checkpoints=3,
            interval_during_backlog="1m",
            max_parallelism=64,
            backlog_parallelism=8,
            end_of_key_watermark="max",
            backlog_emit="all",
            autoscaler=AUTOSCALER,
            watermark_lag_threshold="1h",
            sort_memory="2GB",
            spark={"driver.memory": "4g", "spark.ui.enabled": False},
        )
        .sql("SELECT *\nFROM p", name="rows")
        .key_by("a", "b", name="per_a", parallelism=3)
        .aggregate({"odd name": "count(*)"}, self="sum(x)")
        .key_by("a")
        .aggregate(n="count(*)")
        .write(Sink.json("out"))
    )
    read = {
        "schema": "a int",
        "event-time": "a",
        "watermark": {"out-of-orderness": "5s", "idle-timeout": "1m", "max-ahead": "2d", "partition-column": "p"},
        "bounded": True,
        "options": {"recursiveFileLookup": "true", "pathGlobFilter": "*;", "fs.s3a.connection.maximum": "5"},
    }
    assert job.spec.as_document() == {
        "name": "all",
        "execution": EXECUTION,
        "parallelism": 4,
        "pipeline": {"max-parallelism": 64, "backlog": {"watermark-lag-threshold": "1h"}},
        "state": {"backlog": {"sort-memory": "2GB"}},
        "spark": {"master": "local[*]", "driver.memory": "4g", "ui.enabled": "false"},
        "sources": {
            "p": {"format": "parquet", "path": str(folder / "p"), **read, "max-files-per-epoch": 3},
            "j": {"format": "json", "path": str(folder / "j"), **read, "max-bytes-per-epoch": "1GB"},
            "c": {"format": "csv", "path": str(folder / "c"), **read},
        },
        "steps": [
            {"name": "rows", "sql": "SELECT *\nFROM p"},
            {
                "name": "per_a",
                "key-by": ["a", "b"],
                "parallelism": 3,
                "aggregate": {"odd name": "count(*)", "self": "sum(x)"},
            },
            {"key-by": ["a"], "aggregate": {"n": "count(*)"}},
        ],
        "sink": {"format": "json", "path": str(folder / "out")},
    }
    assert reread(job).spec == job.spec


def test_an_argument_that_is_left_out_has_the_default_of_the_job_file() -> None:
    job = Job("a", sources={"s": Source.parquet("s")}, checkpoint_dir="c").sql("SELECT 1").write(Sink.console())
    from_mapping = job_spec_from_mapping(
        {
            "name": "a",
            "sources": {"s": {"format": "parquet", "path": "s"}},
            "execution": {"checkpointing": {"dir": "c"}},
            "steps": [{"sql": "SELECT 1"}],
            "sink": {"format": "console"},
        }
    )
    assert job.spec == from_mapping


def test_a_job_is_written_as_a_person_would_write_it(folder: Path) -> None:
    job = airport_delays().sql("SELECT *\nFROM x\n")
    assert (
        job.to_yaml()
        == f"""\
name: airport-delays
execution:
  runtime-mode: mixed
  interval-during-backlog: 0s
  checkpointing:
    dir: {folder}/run/checkpoints
parallelism: 2
sources:
  flights:
    format: json
    path: {folder}/data/flights
    schema: {FLIGHTS_DDL}
    event-time: date
    watermark:
      out-of-orderness: 1h
steps:
- sql: SELECT * FROM flights WHERE distance > 100
- key-by:
  - origin
  aggregate:
    flights: count(*)
    mean_delay: avg(delay)
    worst: max(delay)
- sql: |
    SELECT *
    FROM x
sink:
  format: parquet
  path: {folder}/run/out
"""
    )
    assert reread(job).spec == job.spec


def reread(job: Job) -> Job:
    Path("reread.yaml").write_text(job.to_yaml(), encoding="utf-8", newline="")
    return Job.from_file("reread.yaml")


def test_no_call_changes_the_job_it_is_called_on() -> None:
    job = Job("a", sources={"s": Source.parquet("s")}, checkpoint_dir="c")
    longer = job.sql("SELECT 1")
    keyed = longer.key_by("x")
    both = [keyed.aggregate(n="count(*)"), keyed.aggregate(m="max(y)")]
    assert job.steps == ()
    assert longer.steps == (SqlStep(sql="SELECT 1"),)
    assert [list(step.aggregate) for one in both for step in one.steps if isinstance(step, KeyedAggregateStep)] == [
        ["n"],
        ["m"],
    ]
    assert longer.write(Sink.console()).results.keys() == {""}
    assert not longer.results
    with pytest.raises(FrozenInstanceError):
        job.steps = ()  # type: ignore[misc]


def test_a_job_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(airport_delays())) == airport_delays()


def test_a_path_is_taken_from_the_directory_that_is_current_at_the_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink.parquet("out")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert sink.path == str(folder / "out")
    assert Source.parquet("/data").path == "/data"
    assert Source.parquet("s3a://bucket/data").path == "s3a://bucket/data"


def test_a_job_says_where_a_setting_stands() -> None:
    job = airport_delays()
    assert job.where("steps", 0, "sql") == "steps[0].sql"
    assert reread(job).where("steps", 0, "sql") == "reread.yaml:17: steps[0].sql"


def source(**settings: Any) -> Callable[[], object]:
    return lambda: Source.parquet("p", **settings)


def job_with(**settings: Any) -> Callable[[], object]:
    defaults: dict[str, Any] = {"sources": {"s": Source.parquet("/s")}, "checkpoint_dir": "/c"}
    return lambda: Job("a", **(defaults | settings))


def aggregate(*columns: Any, **outputs: Any) -> Callable[[], object]:
    return lambda: (
        Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c").key_by(*columns).aggregate(outputs)
    )


def selecting() -> Job:
    return Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c").sql("SELECT * FROM s")


def anything(value: Any) -> Any:
    """Return a value of another type than the argument's."""
    return value


NOT_A_DURATION = (
    "this is not a duration. Write whole numbers with their units, largest unit first, such as 500ms, 1s, 10m, 1h, 2d "
    "or 1h30m, or a bare 0."
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (source(out_of_orderness="1 hour"), f"Source.parquet: out_of_orderness: {NOT_A_DURATION} found=1 hour"),
        (
            source(out_of_orderness="1h"),
            (
                "Source.parquet: out_of_orderness has no effect without event-time. Name the column in event-time, or "
                "remove it."
            ),
        ),
        (
            lambda: selecting().key_by("k").aggregate(anything("count(*)")),
            'Job.aggregate: each call needs the name of its column, as in aggregate(n="count(*)"). found=count(*)',
        ),
        (
            lambda: selecting().window(tumbling="1h").aggregate({"n": "count(*)", "m": "sum(a)"}, n="sum(b)"),
            "Job.aggregate: a column is given twice. Keep one of the two. columns=n",
        ),
        (
            source(event_time=5),
            "Source.parquet: event_time must be text, not a whole number. Put it in quotes. found=5",
        ),
        (source(idle_timeout=0), "Source.parquet: idle_timeout must be more than 0. found=0"),
        (source(max_ahead="never"), f"Source.parquet: max_ahead: {NOT_A_DURATION} found=never"),
        (
            source(partition_column="p"),
            (
                "Source.parquet: partition_column has no effect without event-time. Name the column in event-time, or "
                "remove it."
            ),
        ),
        (source(options={"a": [1]}), "Source.parquet: options['a'] must be text, not a list."),
        (source(max_files_per_epoch=0), "Source.parquet: max_files_per_epoch must be at least 1. found=0"),
        (
            lambda: Source.csv("p", schema=None),  # type: ignore[arg-type]
            (
                "Source.csv: schema is missing: these files do not say what columns they have. Add them as Spark DDL, "
                'such as "date timestamp, origin string". format=csv'
            ),
        ),
        (lambda: Sink.parquet(""), "Sink.parquet: path must not be empty."),
        (job_with(checkpoint_interval=1), f"Job: checkpoint_interval: {NOT_A_DURATION} found=1"),
        (job_with(interval_during_backlog="x"), f"Job: interval_during_backlog: {NOT_A_DURATION} found=x"),
        (job_with(watermark_lag_threshold="0s"), "Job: watermark_lag_threshold must be more than 0. found=0s"),
        (
            job_with(mode="mixd"),
            "Job: mode cannot be mixd. Did you mean mixed? Known values: batch, streaming, mixed, automatic.",
        ),
        (job_with(max_parallelism=0), "Job: max_parallelism must be at least 1. found=0"),
        (
            job_with(backlog_parallelism=129),
            (
                "Job: backlog_parallelism is more than the number of key groups, so some subtasks would never receive "
                "data. Lower it, or raise max-parallelism. found=129, max-parallelism=128"
            ),
        ),
        (
            job_with(end_of_key_watermark="gratest"),
            "Job: end_of_key_watermark cannot be gratest. Did you mean greatest? Known values: greatest, max.",
        ),
        (job_with(backlog_emit="some"), "Job: backlog_emit cannot be some. Known values: final, all."),
        (
            job_with(checkpoint_dir=None),
            (
                "Job: checkpoint_dir is missing: only batch mode runs without a place for its state. Add a folder or "
                "a URL. mode=mixed"
            ),
        ),
        (
            job_with(sort_memory="lots"),
            (
                "Job: sort_memory: this is not a size. Write a whole number of bytes, or one with a unit, such as "
                "64KB, 256MB or 4GB (1 MB is 1024 * 1024 bytes; MiB and M mean the same). found=lots"
            ),
        ),
        (
            job_with(sources={"a.b": Source.parquet("/s")}),
            (
                "Job: sources['a.b']: SQL reads it by its name, so the name is letters, digits and _, without a dot, "
                "and does not start with a digit. Choose another. found=a.b"
            ),
        ),
        (job_with(spark={"x": None}), "Job: spark['spark.x'] must be text, not None."),
        (
            lambda: Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c").sql(" "),
            "Job.sql: sql must not be empty.",
        ),
        (aggregate(n="count(*)"), "Job.aggregate: columns must hold at least one entry. Add one."),
        (aggregate("a"), "Job.aggregate: outputs must hold at least one entry. Add one."),
        (
            aggregate("a", n="sum(*)"),
            "Job.aggregate: n: only count takes *. Write a column or an expression, such as sum(delay). found=sum(*)",
        ),
        (aggregate("a", n=5), "Job.aggregate: n must be text, such as count(*), not a whole number. found=5"),
        (
            aggregate("a", a="count(*)"),
            "Job.aggregate: a: a key column has this name already (case does not count). Choose another.",
        ),
        (
            lambda: Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c").write(Sink.console()).spec,
            "the job has no step yet. Call .sql(...) or .key_by(...).aggregate(...). name=a",
        ),
        (
            lambda: Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c").sql("SELECT 1").spec,
            "the job has no sink yet. Call .write(Sink.parquet(path)), for example. name=a",
        ),
        (
            lambda: (
                Job("a", sources={"s": Source.parquet("/s")}, checkpoint_dir="/c")
                .sql("SELECT 1", name="S")
                .write(Sink.console())
                .spec
            ),
            "Job: steps[0]['name']: a source has this name already (case does not count). Choose another. found=S",
        ),
        (
            lambda: selecting().write(anything("/out")),
            "Job.write: this is no sink. Give one of `Sink`, such as Sink.parquet(path). found=str",
        ),
        (
            lambda: selecting().write(anything(Source.parquet("/s"))),
            "Job.write: this is no sink. Give one of `Sink`, such as Sink.parquet(path). found=FileSourceSpec",
        ),
        (
            lambda: selecting().key_by("k").process(anything(object()), output="k string"),
            "Job.process: this is no class. Give the class itself, or its name as package.module:Name. found=object",
        ),
        (
            lambda: selecting().key_by("k").process(anything(None), output="k string"),
            "Job.process: this is no class. Give the class itself, or its name as package.module:Name. found=NoneType",
        ),
        (
            job_with(functions={"f": partial(abs)}),
            "Job: this is no function. Give the function itself, or its name as package.module:Name. found=partial",
        ),
        (
            lambda: selecting().write(Sink.console()).run(until=anything("idel")),
            "Job.run: until cannot be idel. Did you mean idle? Known values: stopped, idle, drained.",
        ),
    ],
)
def test_a_mistake_is_reported_by_the_call_that_makes_it_under_the_name_of_the_argument(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidJobError) as caught:
        call()
    assert str(caught.value) == message


_texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
_lines = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(str.strip)
_names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
_outputs = _lines.filter(lambda name: "." not in name and not name.startswith("_"))
_durations = st.integers(1, 10**12).map("{}ms".format)
_counts = st.integers(1, 128)
_calls = st.sampled_from(
    ["count(*)", "count(distinct a) filter (where b = ': }')", "sum(a + ' # : {')", "max(`a: b`)", "first(no)"]
)
_values = st.text(st.characters(codec="utf-8")) | st.booleans() | st.integers()
_spark = st.dictionaries(_texts, _values, max_size=3)
_options = st.dictionaries(_texts.map("fs.{}".format) | st.sampled_from(["sep", "Comment"]), _values, max_size=3)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Any valid job, with text of every kind in it."""

    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    sources = {
        name: Source.csv(
            "/" + draw(_lines),
            schema=draw(_texts),
            event_time="t",
            out_of_orderness=maybe(_durations),
            idle_timeout=maybe(_durations),
            max_ahead=maybe(_durations | st.just("none")),
            partition_column=maybe(_lines),
            bounded=maybe(st.booleans()),
            options=maybe(_options),
            max_bytes_per_epoch=maybe(st.integers(1, 2**40)),
        )
        for name in draw(st.lists(_names, min_size=1, max_size=2, unique=True))
    }
    spark = {key: value for key, value in draw(_spark).items() if not key.startswith("spark.")}
    job = Job(
        draw(_lines),
        sources=sources,
        mode=maybe(st.sampled_from(RuntimeMode)),
        parallelism=maybe(_counts),
        checkpoint_dir="/" + draw(_lines),
        checkpoint_interval=maybe(_durations),
        interval_during_backlog=maybe(_durations | st.just(0)),
        watermark_lag_threshold=maybe(_durations),
        sort_memory=maybe(st.integers(1, 2**40)),
        spark=spark,
    ).sql(draw(_texts))
    for keys in draw(st.lists(st.lists(_lines, min_size=1, max_size=2, unique_by=str.lower), max_size=2)):
        output = draw(_outputs)
        outputs = {output: draw(_calls)} if output.lower() not in map(str.lower, keys) else {"n0": "count(*)"}
        assume("n0" not in outputs or "n0" not in map(str.lower, keys))
        job = job.key_by(*keys).aggregate(outputs)
    job = job.write(draw(st.just(Sink.console()) | _lines.map(lambda name: Sink.parquet("/" + name))))
    assume(not overlap_findings_of(job))
    return job


def overlap_findings_of(job: Job) -> str:
    """Return why the places of a job are refused; empty if they are not."""
    try:
        assert job.spec is not None
    except InvalidJobError as error:
        if "Choose another" not in str(error):
            raise
        return str(error)
    return ""


@given(jobs())
def test_a_job_from_its_own_yaml_has_the_same_spec(tmp_path_factory: pytest.TempPathFactory, job: Job) -> None:
    path = tmp_path_factory.getbasetemp() / "own.yaml"
    path.write_text(job.to_yaml(), encoding="utf-8", newline="")
    assert Job.from_file(path).spec == job.spec
    assert JobSpec.model_validate(job.spec.as_document()) == job.spec


@pytest.mark.parametrize("argument", ["mod", "sources"])
def test_an_argument_that_a_job_does_not_have_is_refused(argument: str) -> None:
    wrong: dict[str, Any] = {argument: "mixed"}
    with pytest.raises(TypeError, match=rf"^Job\.from_stream\(\) got an unexpected keyword argument '{argument}'\."):
        Job.from_stream(None, "x", **wrong)
    with pytest.raises(TypeError, match=rf"^Job\(\) got an unexpected keyword argument '{argument}s'\."):
        Job("x", sources={}, **{f"{argument}s": "mixed"})  # type: ignore[arg-type]
