"""Wrong arguments of Python are refused in Python's words, and never with an error of the code inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source, side_output
from mixedmode.job.keyed import KeyedJob
from mixedmode.job.streams import Stream
from mixedmode.process import ValueState

ANY: Any = None
SOURCE: Any = Source.parquet("data", schema="k string, at timestamp", event_time="at")
SINK: Any = Sink.parquet("out")
LIST: Any = ["x"]
DICTIONARY: Any = {}
TEXT: Any = "x"
NUMBER: Any = 5
OF_SOURCES = "one of `Source`, such as Source.parquet(path)"
OF_SINKS = "one of `Sink`, such as Sink.parquet(path)"
OF_SIDE_OUTPUTS = "one of `side_output`, such as side_output(Sink.parquet(path), schema=...)"
OF_STREAMS = "a stream, such as job.source('orders')"


def job(**arguments: Any) -> Job:
    return Job("wrong", **{"sources": {"t": SOURCE}, "checkpoint_dir": "c", **arguments})


def stream() -> Stream:
    return job().source("t")


def process(**arguments: Any) -> Job:
    return job().key_by("k").process("module:Class", output="k string", **arguments)


def keyed() -> KeyedJob[Job]:
    return job().key_by("k")


def whole() -> Job:
    return job().key_by("k").aggregate(n="count(*)").write(SINK)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: whole().run(observers=NUMBER), "Job.run: observers must be a list of functions of an event. found=5"),
    (lambda: whole().run(stop=NUMBER), "Job.run: stop must be a threading.Event. found=int"),
    (lambda: whole().rescale(TEXT), "Job.rescale: parallelism must be a whole number, or None. found=str"),
    (lambda: whole().rescale(2, step=NUMBER), "Job.rescale: step must be the name of a step. found=int"),
    (lambda: whole().create_savepoint(ANY), "Job.create_savepoint: place must be a path or URL. found=NoneType"),
    (lambda: whole().restore_savepoint(NUMBER), "Job.restore_savepoint: place must be a path or URL. found=int"),
    (
        lambda: whole().restore_savepoint("s", moved=LIST),
        "Job.restore_savepoint: moved must be a dictionary, such as {'/data': '/lake'}. found=list",
    ),
    (lambda: Job.from_file(NUMBER), "Job.from_file: path must be a path or URL. found=int"),
    (
        lambda: Job.from_file("job.yaml", "parallelism=4"),
        "Job.from_file: overrides must be a list, such as ['parallelism=4']. found=str",
    ),
    (lambda: Job(DICTIONARY, sources={"t": SOURCE}), "Job: name must be text, not a dictionary."),
    (lambda: job(sources=SOURCE), "Job: sources must be a dictionary, not a source."),
    (lambda: job(sources={"t": "data"}), f"Job: sources['t'] must be {OF_SOURCES}, not text. found=data"),
    (lambda: job(sources={"t": SINK}), f"Job: sources['t'] must be {OF_SOURCES}, not a sink."),
    (lambda: job(sources={"t": None}), f"Job: sources['t'] must be {OF_SOURCES}, not None."),
    (lambda: job(autoscaler=True), "Job: autoscaler must be a dictionary, such as {'max_parallelism': 8}. found=bool"),
    (lambda: job(functions=LIST), "Job: functions must be a dictionary, such as {'f': f}. found=list"),
    (lambda: job(spark=TEXT), "Job: spark must be a dictionary, not text. found=x"),
    (
        lambda: job().source(SOURCE),
        "Job.source: name must be the name of a source, and those here are t. found=FileSourceSpec",
    ),
    (lambda: job().dimension("d", SINK), f"Job.dimension: table must be {OF_SOURCES}. found=FileSinkSpec"),
    (lambda: Source.parquet("x", bounded=TEXT), "Source.parquet: bounded must be True or False, not text. found=x"),
    (lambda: Source.csv("x", schema="k int", options={"a": ANY}), "Source.csv: options['a'] must be text, not None."),
    (
        lambda: Source.history_and_live(TEXT, Source.parquet("x"), seam="2024-01-01T00:00:00Z"),
        f"Source.history_and_live: history must be {OF_SOURCES}, not text. found=x",
    ),
    (
        lambda: keyed().window(tumbling="1h", late=TEXT),
        f"Job.window: late must be {OF_SINKS}, not text. found=x",
    ),
    (lambda: process(outputs={"a": SINK}), f"Job.process: outputs['a'] must be {OF_SIDE_OUTPUTS}, not a sink."),
    (lambda: process(args=LIST), "Job.process: args must be a dictionary, not a list."),
    (
        lambda: process(broadcast=LIST),
        "broadcast must be a dictionary, such as {'rules': rules.broadcast(key='rule')}. found=list",
    ),
    (
        lambda: process(broadcast={"r": stream()}),
        "a value of `broadcast` must be what Stream.broadcast(key=...) returns. found=Stream",
    ),
    (
        lambda: keyed().process((one for one in LIST), output="k string"),  # type: ignore[arg-type]
        "Job.process: this is no class. Give the class itself, or its name as package.module:Name. found=generator",
    ),
    (lambda: job().output("o", TEXT, SINK), f"Job.output: stream must be {OF_STREAMS}. found=str"),
    (lambda: stream().join(TEXT, on="k"), f"Stream.join: right must be {OF_STREAMS}. found=str"),
    (lambda: stream().union(TEXT), f"Stream.union must be {OF_STREAMS}. found=str"),
    (lambda: stream().sql("SELECT 1", others=[TEXT]), f"Stream.sql: others must be {OF_STREAMS}. found=str"),
    (
        lambda: stream().interval_join(stream(), on="k", within=NUMBER),
        "Stream.interval_join: within: write two durations, the least and the greatest, such as [-1h, 4h]. found=5",
    ),
    (
        lambda: stream().interval_join(stream(), on="k", within=("1h", "2h"), late_left=TEXT),
        f"Stream.interval_join: late_left must be {OF_SINKS}, not text. found=x",
    ),
    (
        lambda: stream().co_process(stream(), on="k", function="m:C", output="k string", late_right=TEXT),
        f"Stream.co_process: late_right must be {OF_SINKS}, not text. found=x",
    ),
    (
        lambda: stream().join(stream(), on="k", condition=NUMBER),
        "Stream.join: condition must be text, not a whole number. Put it in quotes. found=5",
    ),
    (
        lambda: job().sql("SELECT 1").write(SINK, key=NUMBER),
        "Job.write: key must be a column, or a list of columns. found=int",
    ),
    (
        lambda: stream().key_by(["k", "l"]),  # type: ignore[arg-type]
        "key_by: each column is an argument of its own, and text, as in key_by('a', 'b'). found=['k', 'l']",
    ),
    (
        lambda: job().key_by("k", NUMBER),
        "key_by: each column is an argument of its own, and text, as in key_by('a', 'b'). found=5",
    ),
    (lambda: ValueState(int, ttl=NUMBER), "the ttl of a state is a Ttl, as in ValueState(int, ttl=Ttl('7d')). found=5"),
]


@pytest.mark.parametrize(("call", "said"), CALLS, ids=[said[:40] for _, said in CALLS])
def test_a_wrong_argument_is_refused_in_the_words_of_python(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        call()
    assert said in str(caught.value).splitlines()


def test_no_broadcast_is_none(tmp_path: Path) -> None:
    assert len(process(broadcast=None).steps) == 1
    side = side_output(Sink.parquet(tmp_path), schema="k string")
    assert len(process(outputs={"a": side}).steps) == 1
