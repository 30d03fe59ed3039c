"""No place that a job writes may be one that it reads, or another one that it writes, however the two are written."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from mixedmode.config.load import job_spec_from_mapping
from mixedmode.config.overlaps import check_savepoint_folder, check_savepoint_place
from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Sink, Source

SCHEMA = "k string"


def job(path: str, sink: dict[str, Any] | str, *, checkpoints: str = "ck", **step: Any) -> dict[str, Any]:
    to = {"format": "json", "path": sink} if isinstance(sink, str) else sink
    return {
        "name": "n",
        "execution": {"checkpointing": {"dir": checkpoints}},
        "sources": {"orders": {"format": "json", "path": path, "schema": SCHEMA, "event-time": "k"}},
        "steps": [{"key-by": "k", "aggregate": {"n": "count(*)"}, **step}],
        "sink": to,
    }


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `in` with a file and a folder, `out`, and links to both, in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in" / "day").mkdir(parents=True)
    (tmp_path / "in" / "a.json").write_text("{}", encoding="utf-8")
    (tmp_path / "run[12]").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "to-out").symlink_to(tmp_path / "out")
    return tmp_path


def refusal(document: dict[str, Any]) -> str:
    with pytest.raises(InvalidJobError) as caught:
        job_spec_from_mapping(document)
    return str(caught.value)


READ_AND_WRITTEN = [
    ("in", "in"),
    ("in", "./x/../in/"),
    ("in", "in/out"),
    ("in/day", "in"),
    ("in", "link"),
    ("link/day", "in/day/x"),
    ("in", "file://{here}/in/x"),
    ("file://{here}/in", "in"),
    ("in/a.json", "in/a.json"),
    ("in/a.json", "in"),
    ("in/*", "in/out"),
    ("in/*.json", "in"),
    ("in/*/*.json", "in/out"),
    ("in/{a,o*}/x", "in/out/x/y"),
    ("{in/day,nothing}/x*", "in/day/x1"),
    ("elsewhere/*", "out/x"),
    ("run[12]", "run[12]/x"),
    ("s3://bucket/in", "s3a://bucket/in/x"),
    ("s3a://bucket/in/", "s3://bucket/./in"),
    ("gs://bucket/in/*", "gs://bucket/in/x"),
]
APART = [
    ("in", "in2"),
    ("in/day", "in/night"),
    ("in/*.json", "in/out"),
    ("in/d*", "in/out"),
    ("in/{a,b/c}", "in/b/d"),
    ("run[12]", "run1"),
    ("run[34]", "run5"),
    ("elsewhere/*.json", "out"),
    ("n" * 300 + "/*.json", "out"),
    ("a/" * 3000 + "*.json", "out"),
    ("in/a.json/*.json", "out"),
    ("s3://bucket/in", "s3://other/in"),
    ("s3://bucket/in", "in"),
]


@pytest.mark.parametrize(("source", "sink"), READ_AND_WRITTEN)
def test_an_output_that_the_job_would_read_is_refused_with_both_names(folders: Path, source: str, sink: str) -> None:
    message = refusal(job(source.format(here=folders) if "{here}" in source else source, sink.format(here=folders)))
    assert "sink.path: sources.orders.path reads this place, or one in it or around it" in message
    assert "found=" in message


@pytest.mark.parametrize(("source", "sink"), APART)
def test_places_apart_are_accepted(source: str, sink: str) -> None:
    assert job_spec_from_mapping(job(source, sink)).results[""].folder is not None


@pytest.mark.parametrize("kind", ["checkpoints", "late", "sqlite", "delta"])
def test_whatever_the_job_writes_counts(kind: str) -> None:
    late: dict[str, Any] = {"window": {"tumbling": "1d"}, "late": {"format": "csv", "path": "in/late"}}
    documents = {
        "checkpoints": job("in", "out", checkpoints="in/ck"),
        "late": job("in", "out", **late),
        "sqlite": job("in", {"format": "sqlite", "path": "in/x.db", "table": "t"}),
        "delta": job("in", {"format": "delta", "path": "in/x"}),
    }
    message = refusal(documents[kind])
    assert "sources.orders.path reads this" in message


def test_checkpoints_and_outputs_do_not_share_a_folder() -> None:
    assert "sink.path: execution.checkpointing.dir has this folder" in refusal(job("in", "ck/out", checkpoints="ck"))
    assert "sink.path: execution.checkpointing.dir has this folder" in refusal(job("in", "run", checkpoints="run/ck"))


def test_no_two_outputs_share_a_folder_also_beside_another_mistake() -> None:
    wrong: dict[str, Any] = {"on-error": "dead-letter", "dead-letter": {"format": "json", "path": "run/x/../b"}}
    found = job("in", "run/b", **wrong)
    outputs = {
        name: {"format": "json", "path": path, "schema": SCHEMA} for name, path in (("a", "run/a/"), ("b", "run"))
    }
    del found["steps"][0]["aggregate"]
    found["steps"][0] |= {"process": "a.b:C", "output": SCHEMA, "outputs": outputs}
    found["execution"]["runtime-mode"] = "mixd"
    assert re.findall(r"^(\S+): (\S+) has this folder", refusal(found), re.MULTILINE) == [
        ("steps[0].outputs.b.path", "sink.path"),
        ("steps[0].dead-letter.path", "sink.path"),
        ("steps[0].outputs.b.path", "steps[0].outputs.a.path"),
        ("steps[0].dead-letter.path", "steps[0].outputs.b.path"),
    ]


def test_tables_and_topics_are_places_too() -> None:
    delta = job("in", {"format": "delta", "table": "Sales.Orders"})
    delta["sources"]["orders"] = {"format": "delta", "table": "spark_catalog.sales.orders"}
    assert "sink.table: sources.orders.table reads this place" in refusal(delta)
    kafka = job("in", {"format": "kafka", "bootstrap-servers": "b:9092, c:9092", "topic": "orders-2"})
    source = {"format": "kafka", "bootstrap-servers": "c:9092", "value": {"format": "json", "schema": SCHEMA}}
    kafka["sources"]["orders"] = {**source, "topics": ["a", "orders-2"]}
    assert "sink.topic: sources.orders.topics reads this place" in refusal(kafka)
    kafka["sources"]["orders"] = {**source, "topic-pattern": "orders-.*"}
    assert "sink.topic: sources.orders.topic-pattern reads this place" in refusal(kafka)
    kafka["sources"]["orders"] = {**source, "bootstrap-servers": "d:9092", "topics": ["orders-2"]}
    job_spec_from_mapping(kafka)


def test_tables_of_one_sqlite_file_are_told_apart_by_their_names(folders: Path) -> None:
    late: dict[str, Any] = {
        "window": {"tumbling": "1d"},
        "late": {"format": "sqlite", "path": f"{folders}/elsewhere/../x.db", "table": "B"},
    }
    job_spec_from_mapping(job("in", {"format": "sqlite", "path": "x.db", "table": "a"}, **late))
    message = refusal(job("in", {"format": "sqlite", "path": "x.db", "table": "b"}, **late))
    assert "steps[0].late.path: sink.path has this" in message


def test_two_sources_may_read_one_folder() -> None:
    document = job("in", "out")
    document["sources"]["again"] = document["sources"]["orders"]
    document["steps"].insert(0, {"sql": "SELECT * FROM orders UNION ALL SELECT * FROM again"})
    assert len(job_spec_from_mapping(document).sources) == 2


def test_a_job_in_python_is_checked_alike(folders: Path) -> None:
    steps = Job("n", sources={"orders": Source.json("in", schema=SCHEMA)}, checkpoint_dir="ck").sql("SELECT 1")
    with pytest.raises(InvalidJobError, match=r"^Job: sink.*sources.*reads this place"):
        _ = steps.write(Sink.json(os.path.join(folders, "link", "x"))).spec  # noqa: PTH118 - not resolved


@pytest.mark.parametrize("place", ["in", "in/sp", "ck", "ck/sp", "out/sp", ".", "link/sp"])
def test_a_savepoint_has_a_place_of_its_own(place: str) -> None:
    with pytest.raises(InvalidJobError, match=r"^savepoint: "):
        check_savepoint_place(job_spec_from_mapping(job("in", "out")), place)


def test_a_savepoint_of_a_folder_is_not_in_it(folders: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"^savepoint: execution.checkpointing.dir has this folder"):
        check_savepoint_folder(str(folders / "in"), "link/sp")
    check_savepoint_folder(str(folders / "in"), "sp")
