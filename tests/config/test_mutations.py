"""Job files with random faults: each one is read, or refused with InvalidJobError, and nothing else happens.

A mutation puts a value somewhere, removes one, moves one, or changes the text of the file. The oracle is the kind of
the error, and that its text says something.
"""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mixedmode.config import job_spec_from_mapping, load_job
from mixedmode.config.document import Path as Place
from mixedmode.errors import InvalidJobError
from tests.random_cases import random_cases

VALID: tuple[dict[str, Any], ...] = (
    {
        "name": "delays",
        "execution": {
            "runtime-mode": "mixed",
            "checkpointing": {"interval": "1s", "dir": "/run/c"},
            "autoscaler": {"enabled": True, "target-lag": "5s"},
        },
        "parallelism": 2,
        "pipeline": {"max-parallelism": 128},
        "spark": {"master": "local[2]", "spark.sql.shuffle.partitions": 4},
        "sources": {
            "flights": {
                "format": "json",
                "path": "/data/flights",
                "schema": "at timestamp, origin string, delay long",
                "event-time": "at",
                "watermark": {"out-of-orderness": "1h", "max-ahead": "none"},
                "options": {"mode": "PERMISSIVE"},
            }
        },
        "steps": [
            {"sql": "SELECT * FROM flights"},
            {
                "key-by": ["origin"],
                "window": {"tumbling": {"size": "1h"}},
                "late": {"format": "parquet", "path": "/run/late"},
                "aggregate": {"n": "count(*)", "mean": "avg(delay) filter (where delay > 0)"},
            },
        ],
        "sink": {"format": "parquet", "path": "/run/out", "partition-by": ["day(window_start)"]},
    },
    {
        "name": "carts",
        "execution": {"checkpointing": {"dir": "s3://bucket/c"}},
        "sources": {
            "clicks": {
                "history": {"format": "delta", "path": "/lake/clicks"},
                "live": {
                    "format": "kafka",
                    "bootstrap-servers": "localhost:9092",
                    "topics": ["clicks"],
                    "value": {"format": "json", "schema": "user string, at timestamp"},
                    "starting": {"at": "earliest"},
                },
                "seam": {"timestamp": "2026-01-01T00:00:00Z"},
                "event-time": "at",
            }
        },
        "steps": [
            {
                "key-by": "user",
                "process": "carts.functions:Session",
                "args": {"gap": 5, "names": ["a", {"b": None}], "key": "${env:KEY}"},
                "output": "user string, n long",
                "outputs": {"gone": {"format": "console", "schema": "user string"}},
            }
        ],
        "sink": {"format": "postgres", "url": "postgresql://u:${env:P}@host/db", "table": "carts"},
    },
)

DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]

SINGLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from(
        [
            "", " ", "\0", "a\0b", "a\nb", "\x1b[31m", "${env:X", "${env:}", "$", "${", "9" * 5000, "1e400", "-1",
            "0x_", "1s", "99999999999999999999d", "count(", "sum(" * 2000, "[", "*", "a.b.c", "..", "file:", "://",
            "0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "json", "kafka", "custom", "batch", "~",
            "(" * 3000, "`", "'", "{}", "day(", "\u2028",
        ]
    ),
)  # fmt: skip
KEYS = st.one_of(
    st.text(max_size=8),
    st.integers(),
    st.sampled_from(
        [
            "name", "sql", "map", "process", "aggregate", "window", "format", "path", "history", "live", "seam", "args",
            "options", "spark.spark.x", "a.b", ".", "a..b", "", "execution.checkpointing.interval", "steps", "key-by",
        ]
    ),
)  # fmt: skip
VALUES = st.one_of(
    st.recursive(
        SINGLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
    ),
    st.builds(copy.deepcopy, st.just(DEEP)),
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """The path of each value in a document."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


@st.composite
def mutated(draw: st.DrawFn, jobs: Sequence[dict[str, Any]] = VALID) -> dict[str, Any]:
    """A valid job in which one to three things were changed."""
    job: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(jobs)))
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from([place for place in places(job) if place]))
        around: Any = job
        for key in above:
            around = around[key]
        match draw(st.sampled_from(["replace", "remove", "add", "rename"])):
            case "replace":
                around[last] = draw(VALUES)
            case "remove":
                del around[last]
            case "add" if isinstance(around, dict):
                around[draw(KEYS)] = draw(VALUES)
            case "rename" if isinstance(around, dict):
                around[draw(KEYS)] = around.pop(last)
            case _:
                around.append(draw(VALUES))
    return job


def check(load: Any) -> None:
    """Fails on any error but an InvalidJobError that says something."""
    said = "read"
    try:
        load()
    except InvalidJobError as error:
        said = str(error)
    assert said.strip()


@settings(max_examples=random_cases(75))
@given(job=mutated())
def test_a_mapping_with_faults_is_read_or_refused(job: dict[str, Any]) -> None:
    check(lambda: job_spec_from_mapping(job))


@settings(max_examples=random_cases(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_changed_text_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    text = yaml.safe_dump(data.draw(st.sampled_from(VALID)), sort_keys=False)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        piece = st.text(alphabet=st.sampled_from("[]{}:,&*!|>'\"#%@`-?~ \n\tab0.\0\x85"), max_size=4)
        text = text[:start] + data.draw(st.one_of(piece, st.text(max_size=4))) + text[end:]
    file = tmp_path / "job.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    check(lambda: load_job(file))


@settings(max_examples=random_cases(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.one_of(KEYS.map(str), st.sampled_from(["name", "sink.path", "steps", "spark.x"])), value=SINGLE)
def test_an_override_with_faults_is_read_or_refused(tmp_path: Path, key: str, value: object) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(VALID[0]), encoding="utf-8")
    check(lambda: load_job(file, [f"{key}={value}"]))


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
@pytest.mark.parametrize("depth", [100, 3_000])
def test_nesting_without_end_is_refused_by_its_depth(tmp_path: Path, opening: str, depth: int) -> None:
    closing = {"[": "]", "{a: ": "}"}.get(opening, "")
    file = tmp_path / "job.yaml"
    file.write_text("name: x\nspark:\n  " + opening * depth + "b" + closing * depth, encoding="utf-8")

    with pytest.raises(InvalidJobError) as caught:
        load_job(file)

    assert str(caught.value) == f"{file}:3: lists and sections are nested more than 60 deep. Make them flatter."


def test_aliases_that_multiply_are_refused_before_they_are_written_out(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    file = tmp_path / "job.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")

    with pytest.raises(InvalidJobError) as caught:
        load_job(file)

    text = "with its aliases written out, this has more than 100,000 values. Shorten it."
    assert str(caught.value) == f"{file}:6: {text}"


def test_a_mapping_that_contains_itself_is_refused() -> None:
    job = copy.deepcopy(VALID[1])
    job["steps"][0]["args"]["self"] = job["steps"][0]["args"]

    with pytest.raises(InvalidJobError, match=r"contains itself\. Remove the alias\."):
        job_spec_from_mapping(job)


def test_an_alias_that_stands_for_little_may_be_used_often(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    job = yaml.safe_dump(VALID[0], sort_keys=False)
    file.write_text(job.replace("name: delays", "name: &n delays").replace("n: count(*)", "n: &c count(*)"), "utf-8")

    assert load_job(file).spec.name == "delays"


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x7f", "\x9f", "\n"])
@pytest.mark.parametrize(
    "place",
    [
        ("name",),
        ("execution", "checkpointing", "dir"),
        ("sources", "clicks", "history", "path"),
        ("sources", "clicks", "live", "bootstrap-servers"),
        ("sources", "clicks", "live", "topics", 0),
        ("sources", "clicks", "event-time"),
        ("sink", "url"),
        ("sink", "table"),
    ],
)
def test_no_name_path_or_address_holds_a_control_character(place: Place, character: str) -> None:
    job = copy.deepcopy(VALID[1])
    *above, last = place
    around: Any = job
    for key in above:
        around = around[key]
    around[last] = f"{around[last]}{character}b"

    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(job)

    what = "line break" if character == "\n" else "control character"
    assert f" holds a {what}, which no name, path or address can hold. Remove it." in str(caught.value)
    assert f"character=U+{ord(character):04X}" in str(caught.value)
    assert "${env:P}" not in str(caught.value)


@pytest.mark.parametrize(
    "written", ["${env:X", "${env:}", "a${env:", "${env:A ${env:B}", "${env:X:-default}", "${env:a.b}"]
)
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("sink", "url"), "sink.url"),
        (("steps", 0, "args", "key"), "steps[0].args.key"),
        (("sources", "clicks", "live", "options", "x"), "sources.clicks.live.options.x"),
    ],
)
def test_a_variable_that_cannot_be_read_is_refused(place: Place, name: str, written: str) -> None:
    job = copy.deepcopy(VALID[1])
    job["sources"]["clicks"]["live"]["options"] = {}
    *above, last = place
    around: Any = job
    for key in above:
        around = around[key]
    around[last] = f"postgresql://u:{written}@host/db" if name == "sink.url" else written

    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(job)

    said = (
        " begins a variable of the environment that cannot be read. Write ${env:NAME}: a name of letters, digits and "
        "_, without a default value, and the closing brace."
    )
    assert f"{name}{said}" in str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("sources", "clicks", "history", "path"), "sources.clicks.history.path"),
        (("execution", "checkpointing", "dir"), "execution.checkpointing.dir"),
        (("steps", 0, "folder"), "steps[0].folder"),
    ],
)
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/data/${env:STAGE}/x", "${env:...}"),
        ("/data/${STAGE}/x", "${...}"),
        ("~/x", "~"),
        ("~", "~"),
        ("$HOME/x", "$HOME"),
    ],
)
def test_what_a_shell_would_replace_in_a_path_is_refused(place: Place, name: str, path: str, found: str) -> None:
    job = copy.deepcopy(VALID[1])
    *above, last = place
    around: Any = job
    for key in above:
        around = around[key]
    around[last] = path
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(job)
    said = f" is taken literally: {found} is not replaced in it. Write its value, or give it with --set."
    assert f"{name}{said}" in str(caught.value).splitlines()
