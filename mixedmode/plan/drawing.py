"""Drawings of a job's graph: a tree for the terminal, DOT for Graphviz, and Mermaid for Markdown. Pure: from the spec.

Example of a tree, whose roots are the sources. A step with several inputs is below the first of them:

    orders
    ├─ totals: aggregate by customer, also of negated
    │  └─ => totals: parquet run/totals
    └─ large: sql
       └─ => alerts: json run/alerts
"""

from collections.abc import Iterator, Sequence

from mixedmode.config import JobSpec, KeyedAggregateStep, MapStep, SqlStep
from mixedmode.config.graph import Ref
from mixedmode.config.steps import STEP_KINDS, KeyedStep, Step, operator_id, sql_id
from mixedmode.plan.dimensions_read import dimensions_read

__all__ = ["as_dot", "as_mermaid", "as_tree", "step_names"]

_Edge = tuple[str, str]


def as_tree(spec: JobSpec) -> Iterator[str]:
    """Yield the lines of a tree of all sources, steps and outputs."""
    names, graph = step_names(spec), spec.graph
    for source in spec.sources:
        yield source
        yield from _below(spec, ("sources", source), names, "", _readers(spec, ("sources", source)))
    unread = [name for name in spec.sources if not graph.readers(("sources", name))]
    yield from (f"no step reads {name}" for name in unread)


def as_dot(spec: JobSpec) -> Iterator[str]:
    """Yield the lines of a directed graph in the DOT language. Boxes are steps, ellipses are sources, dimensions and
    outputs.
    """
    yield f"digraph {_quoted(spec.name)} {{"
    yield "  rankdir=LR"
    nodes, edges = _nodes_and_edges(spec)
    for node, label, is_step in nodes:
        yield f"  {node} [label={_quoted(label)}, shape={'box' if is_step else 'ellipse'}]"
    yield from (f"  {start} -> {end}" for start, end in edges)
    yield "}"


def as_mermaid(spec: JobSpec) -> Iterator[str]:
    """Yield the lines of a flowchart in Mermaid. Boxes are steps, rounded ones are sources, dimensions and outputs."""
    yield "flowchart LR"
    nodes, edges = _nodes_and_edges(spec)
    for node, label, is_step in nodes:
        text = '"' + label.replace('"', "#quot;") + '"'
        yield f"  {node}[{text}]" if is_step else f"  {node}([{text}])"
    yield from (f"  {start} --> {end}" for start, end in edges)


def _nodes_and_edges(spec: JobSpec) -> tuple[list[tuple[str, str, bool]], list[_Edge]]:
    """Return ((id, label, whether it is a step) of each node, (id, id) of each edge)."""
    names, graph = step_names(spec), spec.graph
    ids: dict[Ref, str] = {("sources", name): f"source{number}" for number, name in enumerate(spec.sources)}
    ids |= {("steps", index): f"step{index}" for index in range(len(spec.steps))}
    nodes = [(ids["sources", name], f"{name}: {source.place}", False) for name, source in spec.sources.items()]
    nodes += [(ids["steps", index], _label(spec, index, names), True) for index in range(len(spec.steps))]
    edges = [(ids[ref], f"step{index}") for index, refs in enumerate(graph.inputs) for ref in refs]
    tables = {name: f"dimension{number}" for number, name in enumerate(spec.dimensions)}
    nodes += [(tables[name], f"{name}: {table.place}", False) for name, table in spec.dimensions.items()]
    edges += [(tables[name], ids["steps", index]) for name, index in dimensions_read(spec)]
    for number, (name, sink) in enumerate(spec.results.items()):
        nodes.append((f"output{number}", f"{name}: {sink.place}" if name else sink.place, False))
        edges.append((ids[graph.outputs[name]], f"output{number}"))
    return nodes, edges


def _below(spec: JobSpec, ref: Ref, names: Sequence[str], indent: str, readers: Sequence[str | int]) -> Iterator[str]:
    graph = spec.graph
    for number, reader in enumerate(readers):
        is_last = number == len(readers) - 1
        branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        if isinstance(reader, str):
            sink = spec.results[reader]
            yield f"{indent}{branch}=> {f'{reader}: ' if reader else ''}{sink.place}"
            continue
        refs = graph.inputs[reader]
        if ref != refs[0]:
            yield f"{indent}{branch}{names[reader]} (with {_name(refs[0], names)})"
            continue
        others = [_name(one, names) for one in refs[1:]]
        also = f", also of {', '.join(others)}" if others else ""
        yield f"{indent}{branch}{_label(spec, reader, names)}{also}"
        yield from _below(spec, ("steps", reader), names, indent + further, _readers(spec, ("steps", reader)))


def _readers(spec: JobSpec, ref: Ref) -> list[str | int]:
    """Return the readers of a source or step: steps by their positions, then outputs by their names."""
    graph = spec.graph
    steps = [index for index, refs in enumerate(graph.inputs) if ref in refs]
    return [*steps, *(name for name, one in graph.outputs.items() if one == ref)]


def _name(ref: Ref, names: Sequence[str]) -> str:
    return str(ref[1]) if ref[0] == "sources" else names[int(ref[1])]


def step_names(spec: JobSpec) -> list[str]:
    """Return the names of all steps; those of keyed steps and map steps are their operator ids."""
    found, keyed, maps = [], 0, 0
    for index, step in enumerate(spec.steps):
        if isinstance(step, SqlStep):
            found.append(sql_id(step, index))
        else:
            found.append(operator_id(step, maps if isinstance(step, MapStep) else keyed))
        keyed += isinstance(step, KeyedStep)
        maps += isinstance(step, MapStep)
    return found


def _label(spec: JobSpec, index: int, names: Sequence[str]) -> str:
    return f"{names[index]}: {_kind(spec.steps[index])}"


def _kind(step: Step) -> str:
    kind = next(kind for kind, model in STEP_KINDS.items() if type(step) is model)
    if not isinstance(step, KeyedStep):
        return kind
    window = " in windows" if isinstance(step, KeyedAggregateStep) and step.window is not None else ""
    keys = ", ".join(step.key_columns)
    return f"{kind}{window}{f' by {keys}' if keys else ''}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
