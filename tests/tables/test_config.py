"""Tables in a job file: what is read, what is refused, and where its paths begin."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import load_job
from mixedmode.connectors.postgres.spec import PostgresSinkSpec
from mixedmode.connectors.sqlite.spec import SqliteSinkSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Sink, side_output

JOB = """\
name: job
execution: {runtime-mode: mixed, checkpointing.dir: ./checkpoints}
sources: {s: {format: json, path: in, schema: "k string"}}
steps:
  - {key-by: k, process: "code:F", output: "k string", outputs: {odd: ODD}}
sink: SINK
"""


def load(tmp_path: Path, sink: str, odd: str = "{format: console, schema: k string}") -> object:
    (tmp_path / "job.yaml").write_text(JOB.replace("SINK", sink).replace("ODD", odd))
    return load_job(tmp_path / "job.yaml").spec


def test_a_sqlite_path_is_taken_from_the_job_files_folder(tmp_path: Path) -> None:
    spec = load_job_of(tmp_path, "{format: sqlite, path: run/totals.db, table: totals, create: false}")
    assert spec == SqliteSinkSpec.model_validate(
        {"format": "sqlite", "path": str(tmp_path / "run/totals.db"), "table": "totals", "create": False}
    )
    assert spec.place == f"sqlite {tmp_path}/run/totals.db totals"


def test_the_python_api_gives_what_the_job_file_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_job_of(tmp_path, "{format: sqlite, path: t.db, table: t}") == Sink.sqlite("t.db", "t")
    url = "postgresql://app:${env:PG_PASSWORD}@host/shop"
    text = f'{{format: postgres, url: "{url}", table: t, table-schema: sales, create: false}}'
    assert load_job_of(tmp_path, text) == Sink.postgres(url, "t", table_schema="sales", create=False)


def test_a_side_output_has_columns_under_schema_and_a_schema_under_table_schema() -> None:
    spec: Any = side_output(Sink.postgres("postgresql://h/d", "t", table_schema="x"), schema="a string")
    assert (spec.schema_ddl, spec.table_schema, spec.place) == ("a string", "x", "postgres h:5432/d x.t")
    assert side_output(Sink.sqlite("/t.db", "t"), schema="a string").schema_ddl == "a string"


def test_two_outputs_of_a_job_have_a_table_each(tmp_path: Path) -> None:
    sink = "{format: sqlite, path: t.db, table: t"
    with pytest.raises(InvalidJobError, match=r"has this place already, and a reader could not tell their rows apart"):
        load(tmp_path, f"{sink}}}", f"{sink}, schema: k string}}")
    load(tmp_path, f"{sink}}}", f"{sink}2, schema: k string}}")


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("{format: sqlite, path: s3://bucket/t.db, table: t}", "sink.path is a URL, and SQLite writes to a local disk"),
        ("{format: sqlite, path: t.db}", "sink.table is missing"),
        ("{format: postgres, url: postgresql://h/d}", "sink.table is missing"),
        ("{format: postgres, url: postgresql://h/d, table: ''}", "sink.table must not be empty"),
        ("{format: postgres, url: jdbc:postgresql://h/d, table: t}", "sink.url is not one of PostgreSQL's"),
        ("{format: postgres, url: postgresql://h/d, table: t, path: x}", "sink.path is for another format"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, sink: str, message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        load(tmp_path, sink)


def load_job_of(tmp_path: Path, sink: str) -> PostgresSinkSpec | SqliteSinkSpec:
    (tmp_path / "job.yaml").write_text(JOB.replace("SINK", sink).replace("ODD", "{format: console, schema: k string}"))
    spec = load_job(tmp_path / "job.yaml").spec.sink
    assert isinstance(spec, PostgresSinkSpec | SqliteSinkSpec)
    return spec
