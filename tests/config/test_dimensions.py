"""Dimensions in a job file: their names, and the settings that a table which is read whole can have."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config.load import job_spec_from_mapping, load_job
from mixedmode.config.sources import SourceSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source

TABLE = {"format": "parquet", "path": "/customers"}
SQL = "SELECT o.id, c.region FROM orders o JOIN customers c ON o.customer = c.name"


def job(*, dimensions: Any, **changes: Any) -> dict[str, Any]:
    return {
        "name": "shop",
        "execution.runtime-mode": "batch",
        "sources": {"orders": {"format": "parquet", "path": "/orders"}},
        "dimensions": dimensions,
        "steps": [{"name": "enriched", "sql": SQL}],
        "sink": {"format": "parquet", "path": "/out"},
        **changes,
    }


def refusal(dimensions: Any, **changes: Any) -> str:
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(job(dimensions=dimensions, **changes))
    return str(caught.value)


def test_a_dimension_is_a_table_in_the_settings_of_a_source() -> None:
    spec = job_spec_from_mapping(job(dimensions={"customers": TABLE}))
    assert spec.dimensions == {"customers": FileSourceSpec(format="parquet", path="/customers")}
    assert job_spec_from_mapping(job(dimensions={})).dimensions == {}


def test_its_path_starts_from_the_folder_of_the_job_file(tmp_path: Path) -> None:
    text = """
        name: shop
        execution.runtime-mode: batch
        sources: {orders: {format: parquet, path: orders}}
        dimensions: {customers: {format: parquet, path: customers}}
        steps: [{sql: SELECT o.id FROM orders o JOIN customers c ON o.customer = c.name}]
        sink: {format: parquet, path: out}
    """
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    assert load_job(tmp_path / "job.yaml").spec.dimensions["customers"].place == f"parquet {tmp_path}/customers"


@pytest.mark.parametrize(
    ("name", "owner"),
    [("Orders", "a source"), ("previous", "the step before, in sql,")],
)
def test_its_name_is_its_own(name: str, owner: str) -> None:
    expected = f"dimensions.{name}: {owner} has this name already (case does not count). Choose another. found={name}"
    assert refusal({name: TABLE}) == expected


def test_two_dimensions_and_a_step_have_different_names() -> None:
    assert refusal({"a": TABLE, "A": TABLE}) == (
        "dimensions.A: another dimension has this name already (case does not count). Choose another. found=A"
    )
    assert refusal({"enriched": TABLE}) == (
        "steps[0].name: a dimension has this name already (case does not count). Choose another. found=enriched"
    )


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ({"event-time": "at"}, "event-time"),
        ({"bounded": True}, "bounded"),
        ({"max-files-per-epoch": 3}, "max-files-per-epoch"),
    ],
)
def test_a_setting_that_only_a_stream_of_rows_can_have_is_refused(setting: dict[str, Any], key: str) -> None:
    expected = (
        f"dimensions.c.{key} has no effect on a dimension, of which each epoch reads the newest version, whole. "
        "Remove it."
    )
    assert refusal({"c": {**TABLE, **setting}}) == expected


def test_what_has_no_versions_is_no_dimension() -> None:
    kafka = {"format": "kafka", "topics": "customers", "bootstrap-servers": "here:9092"}
    expected = (
        "dimensions.c.format cannot be kafka. A dimension is read at a version of its table, and this format has none. "
        "Known values: csv, delta, iceberg, json, parquet, postgres."
    )
    assert refusal({"c": kafka}) == expected
    assert refusal({"c": {"format": "parkuet", "path": "/c"}}).startswith(
        "dimensions.c.format cannot be parkuet. Did you mean parquet?"
    )


def test_the_version_of_a_lakehouse_table_is_not_chosen_by_an_option() -> None:
    table = {"format": "delta", "path": "/c", "options": {"versionAsOf": "3"}}
    expected = (
        "dimensions.c.options.versionAsOf cannot be set on a dimension, of which each epoch reads the newest version. "
        "Remove it."
    )
    assert refusal({"c": table}) == expected


def test_only_the_text_of_sql_reads_a_dimension() -> None:
    text = (
        ": this is a dimension, which is joined in the text of a sql step and has no rows of its own. Remove it here, "
        "and write JOIN customers in the sql; or make the table a source. found=customers"
    )
    steps = [{"name": "x", "from": "customers", "sql": "SELECT * FROM previous"}]
    assert refusal({"customers": TABLE}, steps=steps) == f"steps[0].from{text}"
    join = [{"name": "x", "join": {"left": "orders", "right": "customers", "on": "customer"}}]
    assert refusal({"customers": TABLE}, steps=join) == f"steps[0].join.right{text}"


def test_an_output_is_not_in_the_folder_of_a_dimension() -> None:
    found = refusal({"c": TABLE}, sink={"format": "parquet", "path": "/customers/out"})
    assert found.startswith("sink.path: dimensions.c.path reads this place, or one in it or around it, so the job")


def test_a_job_in_python_has_the_same_dimensions() -> None:
    made = Job("shop", sources={"orders": Source.parquet("/orders")}, mode="batch")
    customers = Source.csv("/customers", schema="name string, region string")
    before, after = made.dimension("customers", customers).sql(SQL), made.sql(SQL).dimension("customers", customers)
    for job in (before, after):
        spec = job.write(Sink.parquet("/out")).spec
        assert spec.dimensions["customers"].place == "csv /customers"
    assert not made.settings.dimensions


def test_a_dimension_of_the_same_name_replaces_the_one_before_and_its_path_is_resolved(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: shop\nexecution.runtime-mode: batch\nsources: {orders: {format: parquet, path: /orders}}\n"
        "dimensions: {customers: {format: parquet, path: customers}}\n"
        f"steps:\n- sql: {SQL}\nsink: {{format: parquet, path: /out}}\n"
    )
    job = Job.from_file(file)
    assert job.spec.dimensions["customers"].place == f"parquet {tmp_path}/customers"
    other = job.dimension("customers", Source.parquet("others")).spec.dimensions["customers"]
    assert other.place == f"parquet {Path.cwd()}/others"


@pytest.mark.parametrize(
    ("name", "table", "found"),
    [
        (
            "c",
            Source.parquet("/c", event_time="at"),
            r"Job.dimension: table\['event-time'\] has no effect on a dimension",
        ),
        ("o", Source.parquet("/c"), r"Job.dimension: name: a source has this name already"),
        ("no name", Source.parquet("/c"), r"Job.dimension: name"),
        (
            "c",
            Source.kafka("c", bootstrap_servers="b:9092", value="text"),
            r"table\['format'\] cannot be kafka. A dimension",
        ),
    ],
)
def test_a_wrong_dimension_is_refused_by_the_call_that_adds_it(name: str, table: SourceSpec, found: str) -> None:
    with pytest.raises(InvalidJobError, match=found):
        Job("shop", sources={"o": Source.parquet("/o")}, mode="batch").dimension(name, table)


def test_a_wrong_dimension_does_not_hide_what_else_is_wrong() -> None:
    outputs = {"o": {"from": "enrichd", "format": "parquet", "path": "/out"}}
    told = refusal({"customers": {**TABLE, "format": "parket"}}, outputs=outputs, sink=None).splitlines()
    assert [line.partition(" ")[0] for line in told] == ["dimensions.customers.format", "outputs.o.from:"]
    assert "Did you mean enriched?" in told[1]
