"""The graph of a job as a document of the API: sources, dimensions, steps, outputs, and what each of them reads. Pure.

The id of a node begins with its kind, because an output may have the name of a step. The main output has the name "".
"""

from collections.abc import Iterable, Mapping, Sequence

from mixedmode.checkpoint.types import OUTPUT_ENTRY, SOURCES_ENTRY
from mixedmode.config import JobSpec
from mixedmode.config.graph import MAIN, Ref
from mixedmode.plan.dimensions_read import dimensions_read
from mixedmode.plan.drawing import step_names
from mixedmode.serve.documents import Document

__all__ = ["graph_of_fingerprints", "graph_of_job"]


def graph_of_job(spec: JobSpec) -> Document:
    """Return the graph of a job, with its sql steps."""
    names, graph = step_names(spec), spec.graph

    def node(ref: Ref) -> str:
        return _id("source", str(ref[1])) if ref[0] == "sources" else _id("step", names[int(ref[1])])

    edges = [(node(ref), _id("step", names[index])) for index, refs in enumerate(graph.inputs) for ref in refs]
    edges += [(_id("dimension", name), _id("step", names[index])) for name, index in dimensions_read(spec)]
    edges += [(node(ref), _id("output", name)) for name, ref in graph.outputs.items()]
    return _document(spec.sources, names, graph.outputs, edges, dimensions=spec.dimensions)


def graph_of_fingerprints(fingerprints: Mapping[str, Mapping[str, object]], sources: Sequence[str]) -> Document:
    """Return the graph of a job as its checkpoint folder tells it: keyed steps, and what they read through other steps.

    fingerprints: of the job's identity. One without `from` and `sources` is of a step that reads all sources.
    """
    entries = {
        name: found for name, found in fingerprints.items() if name != SOURCES_ENTRY and found.get("step") != "map"
    }
    steps = [name for name in entries if not name.startswith(OUTPUT_ENTRY)]
    outputs = [name.removeprefix(OUTPUT_ENTRY) for name in entries if name not in steps]
    edges = []
    for name, found in entries.items():
        reader = _id("step", name) if name in steps else _id("output", name.removeprefix(OUTPUT_ENTRY))
        reads, own = _names(found.get("from")), _names(found.get("sources"))
        edges += [(_id("step", read), reader) for read in reads]
        edges += [(_id("source", source), reader) for source in (own if reads or own else sources)]
    if not outputs and steps:
        outputs = [MAIN]
        edges.append((_id("step", steps[-1]), _id("output", MAIN)))
    return _document(sources, steps, outputs, edges)


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list | tuple) else []


def _document(
    sources: Iterable[str],
    steps: Iterable[str],
    outputs: Iterable[str],
    edges: Sequence[tuple[str, str]],
    dimensions: Iterable[str] = (),
) -> Document:
    kinds = {"source": sources, "dimension": dimensions, "step": steps, "output": outputs}
    nodes = [{"id": _id(kind, name), "kind": kind, "name": name} for kind, names in kinds.items() for name in names]
    known = {node["id"] for node in nodes}
    return {"nodes": nodes, "edges": [list(edge) for edge in dict.fromkeys(edges) if known.issuperset(edge)]}


def _id(kind: str, name: str) -> str:
    return f"{kind}:{name}"
