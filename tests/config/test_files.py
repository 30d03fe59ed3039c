"""The settings of files in a job: partitions, sizes, compression, markers, drift; the same in YAML and in Python."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config.drift import Drift
from mixedmode.config.load import checked_section
from mixedmode.config.partitions import Partition
from mixedmode.connectors.files.sink_spec import FileSinkSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Sink, Source, side_output


def sink(**settings: Any) -> FileSinkSpec:
    values = {"format": "parquet", "path": "out", **{key.replace("_", "-"): value for key, value in settings.items()}}
    return checked_section(FileSinkSpec, values, place="job.yaml", name=lambda path: ".".join(map(str, path)))


def test_an_output_without_settings_is_what_it_always_was() -> None:
    spec = sink()
    assert (spec.partitions, spec.max_file_size_bytes, spec.compression_used, spec.success_marker) == (
        (),
        None,
        "snappy",
        False,
    )
    assert sink(format="csv").compression_used == sink(format="json").compression_used == "none"


def test_every_setting_of_an_output_is_the_same_in_python(tmp_path: Path) -> None:
    settings = {"partition_by": ["country", "day(at)"], "compression": "gzip", "success_marker": True}
    written = sink(path=str(tmp_path), format="csv", max_file_size="1MB", **settings)
    assert Sink.csv(tmp_path, max_file_size=1024 * 1024, **settings) == written  # type: ignore[arg-type]
    assert written.partitions == (Partition("country"), Partition("at", "day"))
    side: Any = side_output(Sink.json(tmp_path, partition_by="a"), schema="a int")
    assert (side.partitions, side.schema_ddl) == ((Partition("a"),), "a int")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"format": "json", "compression": "snappy"},
            (
                "compression is one that readers of this format do not expect. Write none or gzip. "
                "format=json, found=snappy"
            ),
        ),
        (
            {"partition_by": ["week(at)"]},
            (
                "partition-by.0: this is neither a column nor the year, month, day or hour of one. Write `country` or "
                "`day(at)`; a column with brackets in its name goes between backticks. found=week(at)"
            ),
        ),
        (
            {"partition_by": ["a", "A"]},
            "partition-by.1 gives a second level of folders of one name. Remove one. name=a",
        ),
    ],
)
def test_what_does_not_fit_together_is_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        sink(**settings)
    assert str(caught.value) == f"job.yaml: {message}"


def test_drift_has_rules_only_where_it_is_named(tmp_path: Path) -> None:
    def source(drift: dict[str, str] | None) -> FileSourceSpec:
        rules: Any = {} if drift is None else {"schema_drift": drift}
        return Source.csv(tmp_path, schema="k string", **rules)

    assert source(None).drift is None
    assert source({}).drift == Drift()
    assert source({"new-column": "fail", "wrong-type": "nulls"}).drift == Drift("fail", "nulls", "nulls")
    with pytest.raises(InvalidJobError, match="schema_drift"):
        source({"missing-column": "ignore"})


def lines(**settings: Any) -> FileSourceSpec:
    values = {"format": "csv", "path": "/in", "schema": "k string", **settings}
    return checked_section(FileSourceSpec, values, place="job.yaml", name=lambda path: ".".join(map(str, path)))


DEAD = {"undecodable": "dead-letter", "dead-letter": {"format": "json", "path": "/dead"}}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_dead_letters_of_lines_are_the_same_in_python(kind: str) -> None:
    make: dict[str, Any] = {"json": Source.json, "csv": Source.csv}
    written = make[kind]("/in", schema="k string", undecodable="dead-letter", dead_letter=Sink.json("/dead"))
    assert lines(format=kind, **DEAD) == written
    assert list(written.outputs) == [("dead-letter",)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"undecodable": "dead-letter"}, "dead-letter is missing: with undecodable: dead-letter, such records need"),
        ({"dead-letter": DEAD["dead-letter"]}, "dead-letter has no effect unless undecodable is dead-letter."),
        ({**DEAD, "format": "parquet"}, "undecodable can be dead-letter for lines of json and csv only. Remove it."),
        ({**DEAD, "schema-drift": {}}, "undecodable and schema-drift both say what becomes of a wrong record."),
        *(
            ({**DEAD, "options": {option: value}}, f"options.{option} cannot be combined with undecodable: dead-letter")
            for option, value in {"mode": "FAILFAST", "multiLine": True, "encoding": "UTF-16", "lineSep": "|"}.items()
        ),
    ],
)
def test_dead_letters_are_refused_where_lines_are_no_records(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as error:
        lines(**settings)
    assert f"job.yaml: {message}" in str(error.value)
