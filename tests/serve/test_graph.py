"""The graph of a job for the page: nodes, edges, and the figures of each step and output."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from mixedmode.checkpoint.types import RunFile, StagedFile
from mixedmode.config import JobSpec
from mixedmode.serve.documents import manifest_document
from mixedmode.serve.graph import graph_of_fingerprints, graph_of_job
from tests.serve import story


def branched(folder: Path) -> JobSpec:
    """A job with two sources, a step with two readers, and two outputs, one with the name of a step."""
    (folder / "in").mkdir(exist_ok=True)
    source = {"format": "json", "path": str(folder / "in"), "schema": "customer string, price long"}
    document: dict[str, Any] = {
        "name": "branched",
        "execution": {"runtime-mode": "mixed", "checkpointing": {"dir": str(folder / "checkpoints")}},
        "sources": {"orders": source, "refunds": source},
        "steps": [
            {"name": "negated", "sql": "SELECT customer, -price AS price FROM refunds", "from": ["refunds"]},
            {
                "name": "totals",
                "key-by": ["customer"],
                "aggregate": {"total": "sum(price)"},
                "from": ["orders", "negated"],
            },
            {"name": "large", "sql": "SELECT * FROM totals WHERE total > 9", "from": ["totals"]},
        ],
        "outputs": {
            "totals": {"format": "parquet", "path": str(folder / "a"), "from": "totals"},
            "alerts": {"format": "parquet", "path": str(folder / "b"), "from": "large"},
        },
    }
    return JobSpec.model_validate(document)


def edges(graph: dict[str, Any]) -> list[str]:
    return [f"{start} > {end}" for start, end in graph["edges"]]


def test_the_graph_of_a_job_has_all_its_steps_and_inputs(tmp_path: Path) -> None:
    graph = graph_of_job(branched(tmp_path))
    assert [node["id"] for node in graph["nodes"]] == [
        *("source:orders", "source:refunds", "step:negated", "step:totals", "step:large"),
        *("output:totals", "output:alerts"),
    ]
    assert edges(graph) == [
        "source:refunds > step:negated",
        "source:orders > step:totals",
        "step:negated > step:totals",
        "step:totals > step:large",
        "step:totals > output:totals",
        "step:large > output:alerts",
    ]


def test_the_graph_of_a_folder_has_the_keyed_steps(tmp_path: Path) -> None:
    chain: dict[str, dict[str, object]] = {
        "sources": {"sources": ["x"]},
        "a": {"step": "aggregate"},
        "b": {"step": "top", "from": ["a"]},
        "m": {"step": "map"},
    }
    found = graph_of_fingerprints(chain, ["x", "y"])
    assert edges(found) == ["source:x > step:a", "source:y > step:a", "step:a > step:b", "step:b > output:"]
    tree: dict[str, dict[str, object]] = {
        "a": {"step": "aggregate", "from": [], "sources": ["x"]},
        "b": {"step": "top", "from": ["a"], "sources": ["y"]},
        "output:one": {"step": "output", "from": ["a"]},
        "output:two": {"step": "output", "from": ["b", "gone"]},
    }
    assert edges(graph_of_fingerprints(tree, ["x", "y"])) == [
        "source:x > step:a",
        "step:a > step:b",
        "source:y > step:b",
        "step:a > output:one",
        "step:b > output:two",
    ]
    assert graph_of_fingerprints({}, []) == {"nodes": [], "edges": []}


def test_an_epoch_has_the_updates_of_each_step_and_the_rows_of_each_output() -> None:
    manifest = story.manifest(3, 1000)
    old = RunFile("runs/top_customers/0000000002-0000000000-x.sst", 0, 10, 50, 0, 64, "0")
    own = RunFile("runs/top_customers/0000000003-0000000000-x.sst", 0, 10, 7, 0, 64, "0")
    other = replace(own, path="runs/top_customers/0000000003-0000000001-x.sst", entries=4)
    merged = replace(own, path="runs/top_customers/0000000003-0000000000-y.sst", entries=99, merged_from=("a", "b"))
    state = replace(manifest.operators[1], runs=(old, own, other, merged))
    files = [StagedFile("s", "f", 1, rows, "", sink) for rows, sink in ((3, ""), (4, "late"), (5, ""))]
    changed = replace(manifest, operators=(state,), outputs=tuple(files), output_names=("", "late", "quiet"))
    document = manifest_document(changed)
    assert document["steps"]["top_customers"]["updated"] == 11
    assert document["outputs"] == {"": 8, "late": 4, "quiet": 0}
