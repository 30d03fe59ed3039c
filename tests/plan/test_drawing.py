"""Drawings of a graph: every source, step and output is there, and every edge."""

from pathlib import Path

import pytest

from mixedmode.config import JobSpec
from mixedmode.job import Job, Sink, Source
from mixedmode.plan.dimensions_read import dimensions_read
from mixedmode.plan.drawing import as_dot, as_mermaid, as_tree
from mixedmode.serve.graph import graph_of_job


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobSpec:
    monkeypatch.chdir(tmp_path)
    sources = {name: Source.parquet(f"/{name}", event_time="at") for name in ("orders", "refunds", "unread")}
    job = Job('the "shop"', sources=sources, mode="batch")
    orders = job.source("orders")
    negated = job.source("refunds").sql("SELECT 1 FROM refunds", name="negated")
    totals = orders.union(negated).key_by("k", name="totals").aggregate(n="count(*)")
    hourly = orders.key_by("k").window(tumbling="1h").aggregate(n="count(*)")
    job = job.output("totals", totals, Sink.json("/totals")).output("hours", hourly, Sink.parquet("/hours"))
    return job.spec


def test_a_tree_has_each_step_once_with_all_its_inputs(spec: JobSpec) -> None:
    assert list(as_tree(spec)) == [
        "orders",
        "├─ totals: aggregate by k, also of negated",
        "│  └─ => totals: json /totals",
        "└─ aggregate_1: aggregate in windows by k",
        "   └─ => hours: parquet /hours",
        "refunds",
        "└─ negated: sql",
        "   └─ totals (with orders)",
        "unread",
        "no step reads unread",
    ]


def test_dot_and_mermaid_have_the_same_nodes_and_edges(spec: JobSpec) -> None:
    edges = {
        ("source0", "step1"),
        ("step0", "step1"),
        ("source1", "step0"),
        ("source0", "step2"),
        ("step1", "output0"),
        ("step2", "output1"),
    }
    dot, mermaid = list(as_dot(spec)), list(as_mermaid(spec))
    assert {tuple(line.strip().split(" -> ")) for line in dot if "->" in line} == edges
    assert {tuple(line.strip().split(" --> ")) for line in mermaid if "-->" in line} == edges
    assert dot[0] == 'digraph "the \\"shop\\"" {'
    assert '  step1 [label="totals: aggregate by k", shape=box]' in dot
    assert '  step1["totals: aggregate by k"]' in mermaid
    assert '  output1(["hours: parquet /hours"])' in mermaid


def test_a_dimension_has_an_edge_to_each_step_that_joins_it(tmp_path: Path) -> None:
    source = Source.parquet("/orders", schema="k string, airports string")
    job = Job("j", sources={"orders": source}, mode="batch")
    job = job.dimension("airports", Source.parquet("/airports")).dimension("unused", Source.parquet("/unused"))
    job = job.sql("SELECT o.k, 'JOIN unused' AS t FROM orders o -- JOIN unused\n LEFT JOIN `Airports` a ON o.k = a.k")
    job = job.sql("SELECT k, t AS airports FROM previous").sql("SELECT k, airports FROM previous")
    spec = job.write(Sink.parquet(tmp_path / "out")).spec
    assert list(dimensions_read(spec)) == [("airports", 0)]
    dot = list(as_dot(spec))
    assert "  dimension0 -> step0" in dot
    assert not [line for line in dot if "->" in line and "dimension1" in line]
    graph = graph_of_job(spec)
    assert [node["kind"] for node in graph["nodes"]].count("dimension") == 2
    assert ["dimension:airports", "step:sql-1"] in graph["edges"]
