"""Loading job files: the whole way from text to a spec, and the messages of everything that is wrong, in full."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import (
    AggregateCall,
    KeyedAggregateStep,
    ProcessStep,
    RuntimeMode,
    SqlStep,
    TumblingSpec,
    job_spec_from_mapping,
    load_job,
)
from mixedmode.connectors.console.spec import ConsoleSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError

AIRPORT_DELAYS = """\
name: airport-delays
execution:
  runtime-mode: mixed              # batch | streaming | mixed | automatic
  interval-during-backlog: 0       # also execution.checkpointing.interval-during-backlog
  checkpointing: {interval: 1s, dir: ./run/checkpoints}
parallelism: 2
pipeline: {max-parallelism: 128}
spark: {master: "local[*]"}        # any Spark configuration; local is the embedded default
sources:
  flights:
    format: json                   # parquet | csv | json
    path: data/flights             # a directory (or glob) that may keep growing
    schema: "date timestamp, origin string, destination string, delay long, distance long"
    event-time: date
    watermark: {out-of-orderness: 1h}
steps:                             # in order; each reads what the one before it gives
  - sql: SELECT * FROM flights WHERE distance > 100      # any stateless Spark SQL
  - key-by: [origin]
    aggregate: {flights: count(*), mean_delay: avg(delay), worst: max(delay)}
sink: {format: parquet, path: ./run/out}                 # parquet | json | console
"""
KINDS_OF_STEP = (
    "sql, or map, or join, or co-process, or co-group, or key-by and one of aggregate, process, "
    "async-map, top, deduplicate, over, apply-changes"
)
KNOWN_AT_TOP = (
    "name, execution, parallelism, pipeline, state, spark, serve, functions, sources, dimensions, steps, sink, outputs"
)
SOURCE_FORMATS = "csv, custom, delta, iceberg, json, kafka, parquet"
WITH_PATH = "csv, delta, iceberg, json, parquet, sqlite"  # formats of sinks
KNOWN_IN_SOURCE = (
    "format, path, schema, options, schema-drift, undecodable, dead-letter, max-files-per-epoch, max-bytes-per-epoch, "
    "computed-columns, event-time, watermark, bounded"
)


def refused(text: str, *overrides: str) -> list[str]:
    """The lines of the one message about a job file `job.yaml` with this text, in the current directory."""
    Path("job.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidJobError) as caught:
        load_job("job.yaml", overrides)
    return str(caught.value).split("\n")


def changed(old: str, new: str) -> str:
    assert AIRPORT_DELAYS.count(old) == 1, old
    return AIRPORT_DELAYS.replace(old, new)


@pytest.mark.usefixtures("folder")
def test_a_wrong_setting_of_a_step_does_not_hide_what_its_other_settings_contradict() -> None:
    """Settings are compared only in a valid step, which this one is without `parallelism` and `late`."""
    job = changed("key-by: [origin]", "key-by: [origin, Origin]\n    parallelism: many\n    late: {format: paper}")
    assert [line.partition(": ")[2][:40] for line in refused(job)] == [
        "steps[1].key-by names a column twice. Re",
        "steps[1].parallelism must be a whole num",
        "steps[1].late.format cannot be paper. Kn",
    ]


def test_the_job_file_of_the_documentation_is_read_as_it_says(folder: Path) -> None:
    (folder / "job.yaml").write_text(AIRPORT_DELAYS, encoding="utf-8")
    spec = load_job(folder / "job.yaml").spec
    assert spec.name == "airport-delays"
    assert spec.execution.runtime_mode is RuntimeMode.MIXED
    assert spec.execution.interval_during_backlog_ms == 0
    assert spec.execution.checkpointing.interval_ms == 1_000
    assert spec.execution.checkpointing.dir == str(folder / "run/checkpoints")
    assert (spec.parallelism, spec.pipeline.max_parallelism) == (2, 128)
    assert spec.spark == {"spark.master": "local[*]"}
    source = spec.sources["flights"]
    assert isinstance(source, FileSourceSpec)
    assert (source.format, source.path, source.event_time) == ("json", str(folder / "data/flights"), "date")
    assert source.schema_ddl == "date timestamp, origin string, destination string, delay long, distance long"
    assert source.watermark.out_of_orderness_ms == 3_600_000
    first, second = spec.steps
    assert isinstance(first, SqlStep)
    assert first.sql == "SELECT * FROM flights WHERE distance > 100"
    assert isinstance(second, KeyedAggregateStep)
    assert second.key_by == ("origin",)
    calls = {"flights": "count(*)", "mean_delay": "avg(delay)", "worst": "max(delay)"}
    assert second.aggregate == {name: AggregateCall.parse(call) for name, call in calls.items()}
    assert spec.results[""].place == f"parquet {folder / 'run/out'}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "runtime-mode: mixed ",
            "runtime-mod: mixed ",
            (
                "job.yaml:3: execution.runtime-mod is not a known key. Did you mean runtime-mode? Known keys here: "
                "runtime-mode, interval-during-backlog, checkpointing, backlog, autoscaler."
            ),
        ),
        (
            "runtime-mode: mixed ",
            "Runtime_Mode: mixed ",
            (
                "job.yaml:3: execution.Runtime_Mode is not a known key. Did you mean runtime-mode? Known keys here: "
                "runtime-mode, interval-during-backlog, checkpointing, backlog, autoscaler."
            ),
        ),
        (
            "runtime-mode: mixed ",
            "runtime-mode: mixd ",
            (
                "job.yaml:3: execution.runtime-mode cannot be mixd. Did you mean mixed? Known values: batch, "
                "streaming, mixed, automatic."
            ),
        ),
        (
            "runtime-mode: mixed ",
            "runtime-mode: off ",
            ("job.yaml:3: execution.runtime-mode cannot be off. Known values: batch, streaming, mixed, automatic."),
        ),
        (
            "runtime-mode: mixed ",
            "runtime-mode: '' ",
            ("job.yaml:3: execution.runtime-mode cannot be empty. Known values: batch, streaming, mixed, automatic."),
        ),
        (
            "format: json ",
            "formt: json ",
            "job.yaml:11: sources.flights.formt is not a known key. Did you mean format?",
        ),
        (
            "format: json ",
            "histroy: {} ",
            "job.yaml:11: sources.flights.histroy is not a known key. Did you mean history?",
        ),
        (
            "format: json ",
            "format: orc ",
            f"job.yaml:11: sources.flights.format cannot be orc. Known values: {SOURCE_FORMATS}.",
        ),
        (
            "parallelism: 2\n",
            "runtime-mode: 2\n",
            (
                "job.yaml:6: runtime-mode is not a known key. Did you mean execution.runtime-mode? Known keys here: "
                f"{KNOWN_AT_TOP}."
            ),
        ),
        (
            "parallelism: 2\n",
            "path: x\n",
            (
                "job.yaml:6: path is not a known key. Did you mean sources.<name>.path or "
                "sources.<name>.dead-letter.path or sink.path or outputs.<name>.path? Known keys here: "
                f"{KNOWN_AT_TOP}."
            ),
        ),
        (
            "parallelism: 2\n",
            "zzz: 2\n",
            f"job.yaml:6: zzz is not a known key. Known keys here: {KNOWN_AT_TOP}.",
        ),
        (
            "parallelism: 2\n",
            "parallelism: two\n",
            "job.yaml:6: parallelism must be a whole number, not text. found=two",
        ),
        ("parallelism: 2\n", "parallelism: 0\n", "job.yaml:6: parallelism must be at least 1. found=0"),
        (
            "parallelism: 2\n",
            "parallelism: 2.0\n",
            "job.yaml:6: parallelism must be a whole number, not a number with a fraction. found=2.0",
        ),
        (
            "parallelism: 2\n",
            "parallelism: yes\n",
            "job.yaml:6: parallelism must be a whole number, not true or false. found=yes",
        ),
        (
            "parallelism: 2\n",
            "parallelism: 200\n",
            (
                "job.yaml:6: parallelism is more than the number of key groups, so some subtasks would never receive "
                "data. Lower it, or raise max-parallelism. found=200, max-parallelism=128"
            ),
        ),
        (
            "interval: 1s",
            "interval: 1",
            (
                "job.yaml:5: execution.checkpointing.interval: this is not a duration. Write whole numbers with their "
                "units, largest unit first, such as 500ms, 1s, 10m, 1h, 2d or 1h30m, or a bare 0. found=1"
            ),
        ),
        (
            "interval: 1s",
            "interval: 0",
            "job.yaml:5: execution.checkpointing.interval must be more than 0. found=0",
        ),
        (
            "interval: 1s",
            "interval: 1s, interval-during-backlog: 1m",
            (
                "job.yaml:4: execution.interval-during-backlog is given under execution.checkpointing too, with "
                "another value. Keep one of the two. here=0s, there=1m"
            ),
        ),
        (
            ", dir: ./run/checkpoints",
            "",
            (
                "job.yaml:5: execution.checkpointing.dir is missing: only batch mode runs without a place for its "
                "state. Add a folder or a URL. mode=mixed"
            ),
        ),
        (
            "    path: data/flights ",
            "    # path: data/flights ",
            "job.yaml:10: sources.flights.path is missing: a folder, a single file or a glob, local or a URL. Add it.",
        ),
        (
            "    path: data/flights ",
            "    pth: data/flights ",
            (
                "job.yaml:12: sources.flights.pth is not a known key. Did you mean path? Known keys here: "
                f"{KNOWN_IN_SOURCE}."
            ),
        ),
        (
            "name: airport-delays",
            "# name: airport-delays",
            "job.yaml:2: name is missing: the job's name, in messages and in Spark's user interface. Add it.",
        ),
        (
            "name: airport-delays",
            "name: 2024",
            "job.yaml:1: name must be text, not a whole number. Put it in quotes. found=2024",
        ),
        (
            "  flights:\n",
            "  air.flights:\n",
            (
                "job.yaml:10: sources.air.flights: SQL reads it by its name, so the name is letters, digits and _, "
                "without a dot, and does not start with a digit. Choose another. found=air.flights"
            ),
        ),
        (
            'spark: {master: "local[*]"}',
            "spark: {driver.memory: }",
            "job.yaml:8: spark.driver.memory must be text, not nothing.",
        ),
        (
            'spark: {master: "local[*]"}',
            "spark: local",
            "job.yaml:8: spark must be a section of keys, not text. found=local",
        ),
        (
            "  - sql: SELECT",
            "  - sq: SELECT",
            "job.yaml:17: steps[0].sq is not a known key. Did you mean sql? Known keys here: name, from, sql, clock.",
        ),
        (
            "key-by: [origin]",
            "key-by: [origin, no]",
            "job.yaml:18: steps[1].key-by[1] must be text, not true or false. Put it in quotes. found=no",
        ),
        (
            "key-by: [origin]",
            "key-by: {origin: x}",
            "job.yaml:18: steps[1].key-by must be text or a list, not a section of keys.",
        ),
        (
            "max(delay)",
            "maxx(delay)",
            (
                "job.yaml:19: steps[1].aggregate.worst: there is no aggregate function maxx. Did you mean max? "
                "docs/aggregates.md lists the functions; a process function may compute what none of them does. "
                "found=maxx(delay)"
            ),
        ),
        (
            "max(delay)",
            "[a]",
            "job.yaml:19: steps[1].aggregate.worst must be text, such as count(*), not a list.",
        ),
        (
            "worst: max",
            "origin: max",
            (
                "job.yaml:19: steps[1].aggregate.origin: a key column has this name already (case does not count). "
                "Choose another."
            ),
        ),
        (
            "sink: {format: parquet, path: ./run/out}",
            "sink: {format: console, path: ./run/out}",
            f"job.yaml:20: sink.path is for another format: {WITH_PATH}. Remove it, or change the format.",
        ),
        (
            "sink: {format: parquet, path: ./run/out}",
            "sink: console",
            "job.yaml:20: sink must be a section of keys, not text. found=console",
        ),
    ],
)
def test_a_fault_is_one_message_with_file_line_and_what_to_do(folder: Path, old: str, new: str, message: str) -> None:
    assert refused(changed(old, new)) == [message]


WINDOWED = """\
  - key-by: origin
    window: {tumbling: 1h}
    allowed-lateness: 5m
    early-results-every: 10s
    late: {format: json, path: run/late}
    aggregate: {flights: count(*)}
"""
PROCESSED = """\
  - name: alerts
    key-by: origin
    process: delays.alerts:Alerts
    args: {above: 15, by.day: {mon-day: 1.5}, names: [a, false]}
    output: "origin string, worst long"
    outputs:
      slow: {schema: "origin string", format: parquet, path: run/slow}
    on-error: dead-letter
    dead-letter: {format: json, path: run/failed}
"""


def stepping(steps: str) -> str:
    """The job of the documentation with these steps, which begin at line 17."""
    before, _, rest = AIRPORT_DELAYS.partition("  - sql")
    return before + steps + rest[rest.index("sink:") :]


def test_a_windowed_step_is_read_as_it_says(folder: Path) -> None:
    Path("job.yaml").write_text(stepping(WINDOWED), encoding="utf-8")
    (step,) = load_job("job.yaml").spec.steps
    assert isinstance(step, KeyedAggregateStep)
    assert step.window is not None
    assert step.window.kind == TumblingSpec.model_validate("1h")
    assert (step.allowed_lateness_ms, step.early_results_every_ms) == (300_000, 10_000)
    assert step.late is not None
    assert step.late.place == f"json {folder / 'run/late'}"


@pytest.mark.parametrize(
    "window",
    [
        "{tumbling: 1h}",
        "{sliding: {size: 1h, slide: 10m}}",
        "{session: {gap: 30m}}",
        "{session: 30m}",
        "{cumulating: {size: 1d, step: 1h}}",
        "{tumbling: {size: 1d, offset: 6h, time-zone: Europe/Berlin}}",
    ],
)
def test_every_window_may_be_over_all_rows_without_a_key(folder: Path, window: str) -> None:
    text = f"  - window: {window}\n    aggregate: {{n: count(*)}}\n"
    Path("job.yaml").write_text(stepping(text), encoding="utf-8")
    (step,) = load_job("job.yaml").spec.steps
    assert isinstance(step, KeyedAggregateStep)
    assert step.key_by == ()
    assert step.window is not None


def test_a_process_step_is_read_as_it_says(folder: Path) -> None:
    Path("job.yaml").write_text(stepping(PROCESSED), encoding="utf-8")
    spec = load_job("job.yaml", ["sources.flights.watermark.max-ahead=none"]).spec
    (step,) = spec.steps
    assert isinstance(step, ProcessStep)
    assert (step.name, step.key_by, step.process) == ("alerts", ("origin",), "delays.alerts:Alerts")
    assert step.folder == str(folder), "the class is imported from the folder of the job file"
    assert step.args == {"above": 15, "by.day": {"mon-day": 1.5}, "names": ["a", False]}
    assert step.output == "origin string, worst long"
    slow = step.outputs["slow"]
    assert (slow.schema_ddl, slow.place) == ("origin string", f"parquet {folder / 'run/slow'}")
    assert step.on_error == "dead-letter"
    assert step.dead_letter is not None
    assert step.dead_letter.folder == str(folder / "run/failed")
    assert spec.sources["flights"].watermark.max_ahead_ms is None


@pytest.mark.parametrize(
    ("steps", "old", "new", "messages"),
    [
        (
            WINDOWED,
            "tumbling: 1h",
            "tumbling: 1 hour",
            [
                (
                    "job.yaml:18: steps[0].window.tumbling.size: this is not a duration. Write whole numbers with "
                    "their units, largest unit first, such as 500ms, 1s, 10m, 1h, 2d or 1h30m, or a bare 0. "
                    "found=1 hour"
                )
            ],
        ),
        (
            WINDOWED,
            "window: {tumbling: 1h}",
            "window: 1h",
            [
                (
                    "job.yaml:18: steps[0].window must be a section of keys, not text. Known keys here: tumbling, "
                    "sliding, session, cumulating, global, time. found=1h"
                )
            ],
        ),
        (
            WINDOWED,
            "window: {tumbling: 1h}",
            "tumbling: 1h",
            [
                (
                    "job.yaml:18: steps[0].tumbling is not a known key. Did you mean steps[].window.tumbling or "
                    "steps[].co-group.window.tumbling? Known "
                    "keys here: name, from, key-by, parallelism, window, allowed-lateness, early-results-every, late, "
                    "aggregate, having."
                )
            ],
        ),
        (
            WINDOWED,
            "window: {tumbling: 1h}",
            "window: ",
            [
                (
                    "job.yaml:18: steps[0].window has no value. Give it one ({} for a section with its defaults), "
                    "or remove the key."
                ),
                *(
                    f"job.yaml:{line}: steps[0].{key} has no effect without a window. Add a window, or remove it."
                    for line, key in [(19, "allowed-lateness"), (20, "early-results-every"), (21, "late")]
                ),
            ],
        ),
        (
            PROCESSED,
            "delays.alerts:Alerts",
            "delays.alerts.Alerts",
            [
                (
                    "job.yaml:19: steps[0].process: this does not name a class. Write it as package.module:Class. "
                    "found=delays.alerts.Alerts"
                )
            ],
        ),
        (
            PROCESSED,
            "process: ",
            "proces: ",
            [
                (
                    "job.yaml:19: steps[0].proces is not a known key. Did you mean process? Known keys here: name, "
                    "from, key-by, process, folder, args, output, on-error, dead-letter, event-time, outputs, "
                    "broadcast, time-mode, rows-as, late, parallelism."
                )
            ],
        ),
        (
            PROCESSED,
            "    output: ",
            "    aggregate: ",
            [
                (
                    "job.yaml:17: steps[0].output is missing: columns of the result as Spark DDL, such as customer "
                    "string, orders long. Add it."
                ),
                (
                    "job.yaml:21: steps[0].aggregate belongs to another kind of step: a step has "
                    f"{KINDS_OF_STEP}. Make it a step of its own."
                ),
            ],
        ),
        (
            PROCESSED,
            "on-error: dead-letter",
            "on-error: deadletter",
            [
                (
                    "job.yaml:24: steps[0].on-error cannot be deadletter. Did you mean dead-letter? Known values: "
                    "fail, skip, dead-letter."
                )
            ],
        ),
        (
            PROCESSED,
            "on-error: dead-letter",
            "on-error: skip",
            [
                (
                    "job.yaml:25: steps[0].dead-letter has no effect unless on-error is dead-letter. Remove one of the "
                    "two. on-error=skip"
                )
            ],
        ),
        (
            PROCESSED,
            "slow: {",
            "too slow: {",
            [
                (
                    "job.yaml:23: steps[0].outputs.too slow: this name is letters, digits and _, and does not start "
                    "with a digit. Choose another. found=too slow"
                )
            ],
        ),
        (
            PROCESSED,
            'schema: "origin string", ',
            "",
            [
                (
                    "job.yaml:23: steps[0].outputs.slow.schema is missing: columns as Spark DDL, such as customer "
                    "string, at timestamp. Add it."
                )
            ],
        ),
    ],
)
def test_a_fault_of_a_window_or_a_process_step_has_its_line(
    folder: Path, steps: str, old: str, new: str, messages: list[str]
) -> None:
    assert steps.count(old) == 1, old
    assert refused(stepping(steps.replace(old, new))) == messages


def test_two_outputs_in_one_folder_are_found_however_they_are_written(folder: Path) -> None:
    text = stepping(WINDOWED.replace("run/late", str(folder / "jobs" / "out")))
    (folder / "jobs").mkdir()
    (folder / "jobs" / "job.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidJobError) as caught:
        load_job("jobs/job.yaml", ["sink.path=./x/../out"])
    assert str(caught.value) == (
        "jobs/job.yaml:21: steps[0].late.path: sink.path has this folder, or one in it or around it, and a reader "
        f"could not tell their rows apart. Choose another, outside of it. found={folder}/jobs/out, "
        f"sink.path={folder}/jobs/out"
    )


def test_a_step_of_both_kinds_is_refused_key_by_key(folder: Path) -> None:
    advice = f"belongs to another kind of step: a step has {KINDS_OF_STEP}. Make it a step of its own."
    assert refused(changed("  - key-by: [origin]\n", "    key-by: [origin]\n")) == [
        f"job.yaml:18: steps[0].key-by {advice}",
        f"job.yaml:19: steps[0].aggregate {advice}",
    ]


def test_a_job_without_a_sink_is_not_told_that_nothing_reads_its_steps(folder: Path) -> None:
    text = """\
name: two
execution.checkpointing.dir: c
sources: {a: {format: parquet, path: x}}
steps: [{name: b, from: a, sql: SELECT 1 AS n FROM a}, {name: c, from: a, sql: SELECT 2 AS n FROM a}]
"""
    missing = "sink is missing: where the rows of the last step go. Add it, or `outputs` for the rows of several steps."
    assert refused(text) == [f"job.yaml:1: {missing}"]


@pytest.mark.parametrize("kind", ["map: 'm:F'", "{key-by: a, async-map: 'm:F'"])
def test_a_setting_in_the_plural_is_told_its_singular_before_another_kind_of_step(folder: Path, kind: str) -> None:
    step = f"{kind.removeprefix('{')}, outputs: 'n int'"
    text = (
        f"name: j\nexecution.checkpointing.dir: c\nsources: {{a: {{format: parquet, path: x}}}}\nsteps: [{{{step}}}]\n"
    )
    (message,) = refused(text + "sink: {format: console}\n")
    assert message.startswith("job.yaml:4: steps[0].outputs is not a known key. Did you mean output?")


def test_several_faults_are_all_listed_in_the_order_of_the_file_and_then_of_the_command_line(folder: Path) -> None:
    text = """\
name: 7
sink: {format: parquet}
execution.runtime-mode: mixd
sources: {a: {format: json, path: x}, b: {format: parquet, path: x, bounded: 1}}
execution: {runtime-mode: batch}
steps: [5, {}]
"""
    assert refused(text, "parallelism=x", "state.sort-memory=1MB", "nonsense") == [
        "job.yaml:1: name must be text, not a whole number. Put it in quotes. found=7",
        "job.yaml:2: sink.path is missing: the directory or URL to write files in. Add it.",
        (
            "job.yaml:3: execution.runtime-mode cannot be mixd. Did you mean mixed? Known values: batch, streaming, "
            "mixed, automatic."
        ),
        (
            "job.yaml:4: sources.a.schema is missing: these files do not say what columns they have. Add them as "
            'Spark DDL, such as "date timestamp, origin string". format=json'
        ),
        "job.yaml:4: sources.b.bounded must be true or false, not a whole number. found=1",
        "job.yaml:5: execution.runtime-mode is given twice, first at job.yaml:3. Keep one of the two.",
        "job.yaml:6: steps[0] must be a section of keys, not a whole number. found=5",
        f"job.yaml:6: steps[1] is no kind of step. Give it {KINDS_OF_STEP}.",
        "--set nonsense: this is not key=value. Write, for example, --set parallelism=4.",
        "--set parallelism must be a whole number, not text. found=x",
        "--set state.sort-memory is not a known key. Did you mean state.backlog.sort-memory? Known keys here: backlog.",
    ]


def test_a_key_in_the_singular_is_told_its_plural_before_the_same_word_elsewhere(folder: Path) -> None:
    source = 'a: {format: kafka, bootstrap-servers: "h:1", topic: t, value: {format: text}}'
    text = f"name: j\nexecution.checkpointing.dir: c\nsources: {{{source}}}\nsink: {{format: console}}\n"
    *_, message = refused(text)
    assert message.startswith("job.yaml:3: sources.a.topic is not a known key. Did you mean topics? Known keys here: ")


def test_a_file_that_cannot_be_read_is_one_message(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "latin.yaml").write_bytes("name: a\n# Größe\n".encode("latin-1"))
    (folder / "file").touch()
    messages = {
        "no.yaml": f"no.yaml: there is no such file. Check the path. directory={folder}",
        "jobs": "jobs: this is a directory. Name the job file in it.",
        "latin.yaml": "latin.yaml:2: this is not UTF-8 text. Save the file as UTF-8. byte=0xf6",
        "file/job.yaml": "file/job.yaml: the file cannot be read. Check that it is a file and readable. "
        "cause=Not a directory",
        "file": "file: the job file is empty. A job needs at least name, sources, steps and sink.",
    }
    for path, message in messages.items():
        with pytest.raises(InvalidJobError) as caught:
            load_job(path)
        assert str(caught.value) == message


def test_a_byte_order_mark_is_no_part_of_the_file(folder: Path) -> None:
    Path("job.yaml").write_text(AIRPORT_DELAYS, encoding="utf-8-sig")
    assert load_job("job.yaml").spec.name == "airport-delays"


def test_relative_paths_are_taken_from_the_folder_of_the_file_and_others_stay(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "job.yaml").write_text(AIRPORT_DELAYS, encoding="utf-8")
    overrides = ["sources.flights.path=../data/*/*.json", "sink.path=s3://bucket/out", "execution.checkpointing.dir=/c"]
    spec = load_job("jobs/job.yaml", overrides).spec
    assert spec.sources["flights"].place == f"json {folder}/data/*/*.json"
    assert spec.results[""].folder == "s3://bucket/out"
    assert spec.execution.checkpointing.dir == "/c"
    assert load_job("jobs/job.yaml", ["sink.path=file:/out"]).spec.results[""].folder == "/out"
    assert load_job("jobs/job.yaml").spec.results[""].folder == str(folder / "jobs/run/out")


def test_overrides_go_over_the_file_and_an_empty_one_asks_for_the_default(folder: Path) -> None:
    Path("job.yaml").write_text(AIRPORT_DELAYS, encoding="utf-8")
    spec = load_job(
        "job.yaml",
        [
            "parallelism=4",
            "execution.checkpointing.interval-during-backlog=10s",
            "execution.checkpointing.interval=",
            "spark.executor.memory=2g",
            "sources.flights.options.multiLine=true",
            "sources.flights.schema=a: int, b: string",
            "sink.format=console",
            "sink.path=",
        ],
    ).spec
    assert spec.parallelism == 4
    assert spec.execution.interval_during_backlog_ms == 10_000
    assert spec.execution.checkpointing.interval_ms == 1_000
    assert spec.spark == {"spark.master": "local[*]", "spark.executor.memory": "2g"}
    source = spec.sources["flights"]
    assert isinstance(source, FileSourceSpec)
    assert source.options == {"multiLine": "true"}
    assert source.schema_ddl == "a: int, b: string"
    assert spec.sink == ConsoleSinkSpec(format="console")


def test_a_loaded_job_says_where_a_setting_stands(folder: Path) -> None:
    Path("job.yaml").write_text(AIRPORT_DELAYS, encoding="utf-8")
    loaded = load_job("job.yaml", ["sink.path=x"])
    assert loaded.where("steps", 0, "sql") == "job.yaml:17: steps[0].sql"
    assert loaded.where("steps", 1, "key-by", 0) == "job.yaml:18: steps[1].key-by[0]"
    assert loaded.where("sources", "flights", "event-time") == "job.yaml:14: sources.flights.event-time"
    assert loaded.where("sources", "flights", "bounded") == "job.yaml:10: sources.flights.bounded"
    assert loaded.where("sink", "path") == "--set sink.path: sink.path"


def test_a_mapping_says_what_a_file_says_with_paths_from_the_current_directory(folder: Path) -> None:
    mapping: dict[str, Any] = {
        "name": "a",
        "execution.checkpointing": {"dir": "c"},
        "sources": {"s": {"format": "csv", "path": "d", "schema": "x int", "options": {"header": True}}},
        "spark": {"driver": {"memory": "1g"}},
        "steps": ({"key-by": ("x",), "aggregate": {"n": "count(*)"}},),
        "sink": {"format": "console"},
    }
    spec = job_spec_from_mapping(mapping)
    assert spec.execution.checkpointing.dir == str(folder / "c")
    source = spec.sources["s"]
    assert isinstance(source, FileSourceSpec)
    assert (source.path, source.options) == (str(folder / "d"), {"header": "true"})
    assert spec.spark == {"spark.master": "local[*]", "spark.driver.memory": "1g"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"parallelism": "x", "nme": 1},
            (
                "parallelism must be a whole number, not text. found=x\n"
                f"nme is not a known key. Did you mean name? Known keys here: {KNOWN_AT_TOP}."
            ),
        ),
        (
            {"parallelism": 1, "parallelism.x": 1},
            "parallelism is given twice. Keep one of the two.",
        ),
        (
            {"sink": object},
            (
                "a job is made of text, numbers, lists and mappings. Convert what is something else. found=<class "
                "'object'>"
            ),
        ),
    ],
)
def test_what_is_wrong_with_a_mapping_names_its_keys(changes: dict[str, Any], message: str) -> None:
    mapping = {
        "name": "a",
        "sources": {"s": {"format": "parquet", "path": "d", "bounded": True}},
        "steps": [{"sql": "SELECT 1"}],
        "sink": {"format": "console"},
    }
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(mapping | changes)
    assert str(caught.value) == message


@pytest.mark.parametrize("section", ["execution", "pipeline", "state", "spark", "execution.backlog"])
def test_a_section_with_everything_commented_out_has_its_defaults(folder: Path, section: str) -> None:
    Path("job.yaml").write_text(AIRPORT_DELAYS, encoding="utf-8")
    overrides = [f"{section}=", "execution.runtime-mode=batch"]
    assert load_job("job.yaml", overrides).spec.execution.runtime_mode is RuntimeMode.BATCH
