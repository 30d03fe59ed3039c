"""A job whose outputs are in a folder of its own, so that another run of it touches nothing that is in use. Pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixedmode.config import JobSpec

__all__ = ["OUT", "document_in_scratch", "without"]

#: the folder of the main output, below the folder of the run
OUT = "out"
_OF_THE_RUNNING_JOB = ("runtime-mode", "interval-during-backlog", "checkpointing", "autoscaler")


def document_in_scratch(spec: JobSpec, scratch: Path) -> dict[str, Any]:
    """Return a job as a document: its main output in `scratch / OUT`, as Parquet, and all other outputs in `scratch`.

    It has the same sources, and neither a mode nor checkpoints.
    """
    document = without(spec.as_document(), "serve", "outputs")
    for number, (name, source) in enumerate(spec.sources.items()):
        for path in source.outputs:
            _set(document["sources"][name], path, {"format": "parquet", "path": str(scratch / f"dead-lines-{number}")})
    document["steps"] = [_step(step, scratch, number) for number, step in enumerate(document.get("steps", ()))]
    document["sink"] = {"format": "parquet", "path": str(scratch / OUT)}
    document["execution"] = without(document.get("execution", {}), *_OF_THE_RUNNING_JOB)
    return document


def without(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a mapping without some keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def _set(section: dict[str, Any], path: tuple[str | int, ...], value: Mapping[str, Any]) -> None:
    at: Any = section
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value


def _step(step: Mapping[str, Any], scratch: Path, number: int) -> dict[str, Any]:
    """Return a step whose side outputs are in `scratch`."""
    found = without(step, "late")
    if "join" in found:
        found["join"] = without(found["join"], "late")
    if "outputs" in found:
        found["outputs"] = {
            tag: {**_schema(sink), "format": "parquet", "path": str(scratch / f"side-{number}-{tag}")}
            for tag, sink in found["outputs"].items()
        }
    if "dead-letter" in found:
        found["dead-letter"] = {"format": "parquet", "path": str(scratch / f"dead-{number}")}
    return found


def _schema(sink: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sink.items() if key == "schema"}
