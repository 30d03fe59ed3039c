"""Every argument of every public call, by its signature: a wrong value is refused, and never with an error inside."""

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin

import pytest

import mixedmode
import mixedmode.job as job_api
from mixedmode.errors import InvalidJobError, MixedmodeError
from mixedmode.job import Job, JobResult, Sink, Source
from mixedmode.queryable import StateSnapshot
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import counts, row

#: none of them is right for any argument
WRONG: list[Any] = [object(), b"\xff", {5: object()}, [object()], {object()}, threading.Lock()]
#: methods that a user does not call, and those without an argument that could be wrong
INSIDE = {
    "checked",
    "of_source",
    "with_step",
    "placed",
    "where",
    "manifest",
    "tables",
    "plain_rows",
    "read_keys",
    "places",
    "prepare",
}
SOURCE = Source.parquet("data", schema="k string", event_time="at")
#: {argument: a right value}, of those without a default
RIGHT: Mapping[str, Any] = {
    "step": "aggregate-1",
    "format": "parquet",
    "history": SOURCE,
    "live": SOURCE,
    "seam": "2024-01-01T00:00:00Z",
    "sink": Sink.parquet("out"),
    "table": "t",
    "schema": "k string",
    "name": "n",
    "sources": {"t": SOURCE},
    "function": "module:Class",
    "output": "k string",
    "sql": "SELECT 1",
    "keep": "first",
    "n": 1,
    "on": "k",
    "key": "k",
    "within": ("-1h", "1h"),
    "order_by": "k",
    "start": "2024-01-01T00:00:00Z",
    "end": "2024-01-02T00:00:00Z",
    "parallelism": 1,
    "columns": "k",
    "sequence_by": "v",
}


def public_methods(owner: Any) -> dict[str, Callable[..., Any]]:
    """Return the public methods of an object, or the static ones of a class, that take arguments."""
    kind = owner if isinstance(owner, type) else type(owner)
    names = [name for name in dir(owner) if not name.startswith("_") and name not in INSIDE]
    found = {f"{kind.__name__}.{name}": getattr(owner, name) for name in names if callable(getattr(kind, name))}
    return {name: call for name, call in found.items() if inspect.signature(call).parameters}


def arguments_of(call: Callable[..., Any]) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield the arguments of a call, those of a TypedDict one by one."""
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            yield name, parameter
        elif get_origin(parameter.annotation) is Unpack:
            for each in get_args(parameter.annotation)[0].__annotations__:
                yield each, inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None)


def called(call: Callable[..., Any], wrong: str, value: object, right: Mapping[str, Any]) -> None:
    """Call with one wrong argument and as few others as possible."""
    positional, named = [], {}
    for name, parameter in arguments_of(call):
        if name != wrong and parameter.default is not inspect.Parameter.empty:
            continue
        given = value if name == wrong else right[name]
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
            positional.append(given)
        else:
            named[name] = given
    call(*positional, **named)


def completed(key_by: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call with a step after it, since only the step has all settings."""

    @wraps(key_by)
    def call(*args: Any, **kwargs: Any) -> Any:
        return key_by(*args, **kwargs).aggregate(n="count(*)")

    return call


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> RunningJob:
    found = RunningJob(tmp_path_factory.mktemp("calls") / "job", counts)
    found.epoch([row("a", 1, 0)])
    return found


def all_calls(job: RunningJob, snapshot: StateSnapshot) -> dict[str, Callable[..., Any]]:
    empty = Job("calls", sources={"t": SOURCE}, checkpoint_dir=job.checkpoints)
    stream = empty.source("t")
    whole = empty.key_by("k").aggregate(n="count(*)").write(Sink.parquet("out"))
    functions = {name: getattr(mixedmode, name) for name in mixedmode.__all__}
    owners = [Source, Sink, empty, stream, empty.key_by("k"), empty.window(tumbling="1h"), snapshot]
    result = JobResult(whole.spec, 0, 0, 0, 0, 0.0)
    owners += [result, stream.broadcast(key="k")]
    public = {one for one in (getattr(job_api, name) for name in job_api.__all__) if isinstance(one, type)}
    assert public <= {owner if isinstance(owner, type) else type(owner) for owner in owners}
    found = {name: call for name, call in functions.items() if call not in (Source, Sink)}
    for owner in owners:
        found |= public_methods(owner)
    return {name: completed(call) if name.endswith(".key_by") else call for name, call in found.items()}


def right_of(job: RunningJob, label: str) -> dict[str, Any]:
    """Return right values of a call's arguments."""
    stream = Job("r", sources={"t": SOURCE}, checkpoint_dir="c").source("t")
    places = dict.fromkeys(("directory", "path", "source", "url", "place", "topic"), str(job.checkpoints))
    table = {"table": SOURCE} if label == "Job.dimension" else {}
    return {**RIGHT, "right": stream, "stream": stream, "session": None, **places, **table}


def test_each_path_of_each_call_that_the_system_refuses_is_an_error_of_ours(job: RunningJob, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "file").touch()
    wrong = ["n" * 300, "a/" * 3000, "n" * 300 + "/*.json", *(str(tmp_path / name) for name in ("circle", "file/x"))]
    told, failures = set[str](), list[str]()
    with mixedmode.open_state(job.checkpoints) as snapshot:
        for label, call in all_calls(job, snapshot).items():
            for name in {name for name, parameter in arguments_of(call) if "PathLike" in str(parameter.annotation)}:
                for value in wrong:
                    try:
                        called(call, name, value, right_of(job, label))
                    except MixedmodeError:
                        told.add(label)
                    except Exception as error:  # noqa: BLE001  # what must not be
                        failures.append(f"{label}: {name}={value[:50]}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
    assert told >= {"read_state", "open_state", "read_table", "read_output", "output_files", "Job.from_file"}


def test_each_argument_of_each_call_with_a_wrong_value_is_refused(job: RunningJob) -> None:
    failures, count = list[str](), 0
    with mixedmode.open_state(job.checkpoints) as snapshot:
        calls = all_calls(job, snapshot)
        for label, call in calls.items():
            own = right_of(job, label)
            for name, _ in arguments_of(call):
                for value in WRONG:
                    count += 1
                    try:
                        called(call, name, value, own)
                    except InvalidJobError:
                        continue
                    except Exception as error:  # noqa: BLE001  # what must not be
                        failures.append(f"{label}: {name}={value!r}: {type(error).__name__}: {error}")
                    else:
                        failures.append(f"{label}: {name}={value!r} is accepted")
    assert not failures, "\n".join(failures)
    assert count > 1000
