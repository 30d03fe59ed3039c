"""`mixedmode state` shows the state of a step, and says what to do if it cannot."""

import csv
import datetime as dt
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import ipc

from mixedmode.checkpoint import paths
from mixedmode.queryable import read_state
from tests.cli.shell import command, lines
from tests.queryable.jobs import RunningJob
from tests.queryable.test_reads import process, row
from tests.serve.test_state import over

STEP = "aggregate-1"


def by_country(job: Any) -> Any:
    return job.key_by("k", "v").aggregate(n="count(*)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").aggregate(n="count(*)", s="sum(v)"))
    job.epoch([row("SFO", 1, 0), row("LAX", 5, 1)])
    job.epoch([row("SFO", 2, 2)])
    return job.checkpoints


def test_the_steps_and_the_parts_of_their_state_are_listed(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, process)
    job.epoch([row("a", 1, 0)])
    title, _, step = lines(command("state", job.checkpoints))
    assert title == "epoch 0"
    assert step.split()[:3] == ["process-1", "k", "values,"]


def test_the_state_of_a_key_is_shown_with_its_epoch(folder: Path) -> None:
    head, first, title = lines(command("state", folder, STEP, "SFO"))
    assert (head.split(), first.split()) == (["k", "n", "s"], ["SFO", "2", "3"])
    assert title == "epoch 1, aggregate-1, result: 1 row"
    assert lines(command("state", folder, STEP, "SFO", "--epoch", "0"))[1].split() == ["SFO", "1", "1"]


@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_keys_without_state_are_named_on_standard_error(folder: Path, form: str) -> None:
    found = command("state", folder, STEP, "SFO", "zz", "ü, y", "LAX", "zz", "--format", form)
    assert (found.exit_code, found.stderr) == (0, "there is no state of zz, ü, y\n")
    assert b"zz" not in found.stdout_bytes
    assert command("state", folder, STEP, "SFO", "LAX", "--format", form).stderr == ""


def test_named_keys_are_all_shown(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, lambda job: job.key_by("k").aggregate(n="count(*)"))
    keys = [f"k{number}" for number in range(30)]
    job.epoch([row(key, 1, 0) for key in keys])
    assert lines(command("state", job.checkpoints, STEP, *keys))[-1].endswith(": 30 rows")


def test_a_limit_says_that_there_is_more(folder: Path) -> None:
    assert lines(command("state", folder, STEP, "--limit", "1"))[-1].endswith("1 row, and more (--limit 0 shows all)")


def test_programs_get_json_csv_or_an_arrow_stream(folder: Path) -> None:
    found = [json.loads(line) for line in lines(command("state", folder, STEP, "--format", "json"))]
    assert sorted(one["k"] for one in found) == ["LAX", "SFO"]
    assert sorted(lines(command("state", folder, STEP, "--format", "csv"))) == ['"LAX",1,5', '"SFO",2,3', '"k","n","s"']
    stream = command("state", folder, STEP, "--format", "arrow").stdout_bytes
    table = ipc.open_stream(io.BytesIO(stream)).read_all()
    assert (table.num_rows, table.schema.metadata[b"mixedmode.epoch"]) == (2, b"1")


def test_all_forms_have_all_values(tmp_path: Path) -> None:
    types = "k string, at timestamp, f double, z double, b binary, d decimal(5, 2), n timestamp_ntz, t date"
    job = RunningJob(tmp_path, lambda job: job.key_by("k").deduplicate(keep="last"), ddl=types)
    local, decimal = dt.datetime(9999, 12, 31, 1), Decimal("-0.50")  # noqa: DTZ001  # without a zone
    values = {"f": math.nan, "z": -0.0, "b": b"\xff\0", "d": decimal, "n": local, "t": dt.date(1, 1, 1)}
    job.epoch([{"k": "a\n\u2028", "at": 1, **values}, {"k": "null", "at": 1}])

    def printed(form: str) -> bytes:
        return command("state", job.checkpoints, "deduplicate-1", "--format", form).stdout_bytes

    found = [json.loads(text, parse_constant=pytest.fail) for text in printed("json").splitlines()]
    assert next(row for row in found if row["k"] != "null") == {
        "k": "a\n\u2028",
        "at": "1970-01-01T00:01:00+00:00",
        "f": None,
        "z": -0.0,
        "b": "/wA=",
        "d": "-0.50",
        "n": "9999-12-31T01:00:00",
        "t": "0001-01-01",
    }
    with over(job) as get:
        assert get("/api/v1/state/deduplicate-1").json["rows"] == found
    rows = list(csv.DictReader(io.StringIO(printed("csv").decode(), newline="")))
    assert {row["k"]: row["b"] for row in rows} == {"a\n\u2028": "/wA=", "null": ""}
    tables = (ipc.open_stream(printed("arrow")).read_all(), read_state(job.checkpoints, "deduplicate-1"))
    assert repr(tables[0].to_pylist()) == repr(tables[1].to_pylist()), "as text, since NaN is not equal to NaN"


def test_a_key_of_several_columns_is_a_json_array_and_may_be_a_prefix(tmp_path: Path) -> None:
    job = RunningJob(tmp_path, by_country)
    job.epoch([row("a", 1, 0), row("a", 2, 0), row("b", 1, 0)])
    assert lines(command("state", job.checkpoints, STEP, '["a", 2]'))[1].split() == ["a", "2", "1"]
    assert len(lines(command("state", job.checkpoints, STEP, "a", "--prefix"))) == 4
    refused = command("state", job.checkpoints, STEP, "a")
    assert (refused.exit_code, "as a JSON array" in refused.output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["aggregate-2"], "Did you mean aggregate-1?"),
        ([STEP, "LAXX"], "there is no state of this key. Did you mean LAX?"),
        ([STEP, "x", "y"], "there is no state of any of these keys. step=aggregate-1"),
        ([STEP, "--epoch", "7"], "there is no checkpoint of this epoch. Name one that is kept: 0, 1."),
        ([STEP, "--name", "results"], "Did you mean result?"),
        ([STEP, "a", "b", "--prefix"], "--prefix takes one key"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(folder: Path, arguments: list[str], said: str) -> None:
    refused = command("state", folder, *arguments)
    assert refused.exit_code == 2
    assert said in refused.output


def test_a_job_without_a_checkpoint_has_no_state_yet(folder: Path) -> None:
    for epoch in (0, 1):
        (folder / paths.manifest_path(epoch)).unlink()  # type: ignore[arg-type]
    refused = command("state", folder, STEP)
    assert (refused.exit_code, "no state yet" in refused.output) == (1, True)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    refused = command("state", tmp_path, STEP)
    assert (refused.exit_code, "neither a checkpoint folder nor a savepoint" in refused.output) == (2, True)
