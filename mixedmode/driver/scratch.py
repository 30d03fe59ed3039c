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
    for number, path in enumerate(spec.sinks):
        if path[0] in ("sources", "steps"):
            _set(document, path, {"format": "parquet", "path": str(scratch / f"side-{number}")})
    document["sink"] = {"format": "parquet", "path": str(scratch / OUT)}
    document["execution"] = without(document.get("execution", {}), *_OF_THE_RUNNING_JOB)
    return document


def without(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a mapping without some keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def _set(document: dict[str, Any], path: tuple[str | int, ...], sink: Mapping[str, Any]) -> None:
    """Put another sink in the place of one, with the columns that are declared there."""
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = {**sink, **{key: value for key, value in at[path[-1]].items() if key == "schema"}}
