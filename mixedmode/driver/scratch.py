"""A job whose outputs are in a folder of its own, so that another run of it touches nothing that is in use. Pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixedmode.config import JobSpec
from mixedmode.config.graph import MAIN
from mixedmode.config.sinks import SinkSpec

__all__ = ["document_in_scratch", "output_folder", "without"]

_OF_THE_RUNNING_JOB = ("runtime-mode", "interval-during-backlog", "checkpointing", "autoscaler")


def document_in_scratch(spec: JobSpec, scratch: Path) -> dict[str, Any]:
    """Return a job as a document: outputs of whole steps in their `output_folder`, as Parquet, and others in `scratch`.

    It has the same sources, and neither a mode nor checkpoints.
    """
    document = without(spec.as_document(), "serve", "sink", "outputs")
    for number, path in enumerate(spec.sinks):
        if path[0] in ("sources", "steps"):
            _set(document, path, {"format": "parquet", "path": str(scratch / f"side-{number}")})
    results = {
        name: {"format": "parquet", "path": str(output_folder(scratch, name)), **_reads(sink)}
        for name, sink in spec.results.items()
    }
    document |= {"sink": results[MAIN]} if MAIN in results else {"outputs": results}
    document["execution"] = without(document.get("execution", {}), *_OF_THE_RUNNING_JOB)
    return document


def output_folder(scratch: Path, name: str) -> Path:
    """Return the folder of an output of whole steps.  name: MAIN for `sink`."""
    return scratch / "out" if name == MAIN else scratch / "outputs" / name


def _reads(sink: SinkSpec) -> dict[str, Any]:
    """Return the settings that say which rows an output gets, and how it finds a row again."""
    return {**({"from": sink.from_} if sink.from_ else {}), **({"key": list(sink.key)} if sink.key else {})}


def without(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a mapping without some keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def _set(document: dict[str, Any], path: tuple[str | int, ...], sink: Mapping[str, Any]) -> None:
    """Put another sink in the place of one, with the columns that are declared there."""
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = {**sink, **{key: value for key, value in at[path[-1]].items() if key == "schema"}}
