"""A job that starts again from a point of its input, beside the job as it was. Pure.

The new job has empty state and another checkpoint folder, and writes to other places, since an output belongs to one
checkpoint folder. All else is equal. Each source either begins exactly at the point, or the reset is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mixedmode.config.document import Path, path_text
from mixedmode.config.load import job_spec_from_mapping
from mixedmode.config.sinks import with_suffix
from mixedmode.config.sources import SourceSpec
from mixedmode.config.spec import JobSpec
from mixedmode.config.starts import StartPoint
from mixedmode.errors import InvalidJobError

__all__ = ["reset_spec"]


def reset_spec(spec: JobSpec, point: StartPoint, suffix: str) -> JobSpec:
    """Return the job that starts at a point.  suffix: added to its folders, tables and topics.

    Raise InvalidJobError with every reason why a source cannot start there, or an output has no other place.
    """
    folder = spec.execution.checkpointing.dir
    if folder is None:
        msg = f"this job keeps no checkpoints, so each run starts at the beginning of its input. name={spec.name}"
        raise InvalidJobError(msg)
    reasons = list(_reasons(spec, point, suffix))
    if reasons:
        raise InvalidJobError("\n".join(f"{path_text(path)}: {text}" for path, text in reasons))
    _check_topics(spec, point)
    document = spec.as_document()
    document["execution"]["checkpointing"]["dir"] = with_suffix(folder, suffix)
    for name, source in spec.sources.items():
        document["sources"][name] = _document_of(_started(source, point))
    for path, sink in spec.sinks.items():
        moved = sink.renamed(suffix)
        assert moved is not None, path
        _set(document, path, _document_of(moved))
    return job_spec_from_mapping(document)


def _reasons(spec: JobSpec, point: StartPoint, suffix: str) -> Iterator[tuple[Path, str]]:
    for name, source in spec.sources.items():
        found = source.starting_at(point)
        if isinstance(found, str):
            yield ("sources", name), f"{found} source={source.place}, to={point}"
    for path, sink in spec.sinks.items():
        if sink.renamed(suffix) is None:
            text = (
                "this output has no folder, table or topic that a reset could name anew, and two starts of a job "
                "cannot share an output. Copy the job file, and change the output, the checkpoint folder and the "
                f"start of the sources there. output={sink.place}"
            )
            yield path, text


def _check_topics(spec: JobSpec, point: StartPoint) -> None:
    """Raise InvalidJobError if the offsets name a topic that no source reads."""
    if point.offsets is None:
        return
    starts = [_document_of(_started(source, point))["starting"] for source in spec.sources.values()]
    others = sorted(point.offsets.keys() - {topic for start in starts for topic in start["offsets"]})
    if others:
        msg = f"the offsets name a topic that no source reads. Remove it. topic={others[0]}, to={point}"
        raise InvalidJobError(msg)


def _started(source: SourceSpec, point: StartPoint) -> SourceSpec:
    found = source.starting_at(point)
    assert not isinstance(found, str), found
    return found


def _document_of(section: Any) -> dict[str, Any]:
    found: dict[str, Any] = section.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return found


def _set(document: Mapping[str, Any], path: Path, value: dict[str, Any]) -> None:
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
