"""The stand-ins of sources, and which part of a source consists of files."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mixedmode.config import SourceSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from mixedmode.sources.sides import streams_of_sides, united
from mixedmode.sources.source import Admission, OpenSource

__all__ = ["FilePart", "specs_of_sides", "stand_ins"]


@dataclass(frozen=True, slots=True)
class FilePart:
    """The files of a source: all of it, or one of its sides.

    `frame`: the stand-in of the part, within that of the source. `others`: those of the other sides, if it is a side.
    `side`: its number among the sides.
    """

    spec: FileSourceSpec
    frame: DataFrame
    others: tuple[DataFrame, ...] = ()
    side: int | None = None


def stand_ins(
    sources: Mapping[str, OpenSource], specs: Mapping[str, SourceSpec]
) -> tuple[dict[str, DataFrame], dict[str, FilePart]]:
    """Return the stand-ins of sources, and the files of those that have some, by name."""
    found = {name: _stand_in(source, specs[name]) for name, source in sources.items()}
    frames = {name: frame for name, (frame, _) in found.items()}
    return frames, {name: part for name, (_, part) in found.items() if part is not None}


def specs_of_sides(spec: SourceSpec) -> tuple[SourceSpec, ...]:
    """Return the settings of each side of a source, in the order of `sides_of`."""
    return tuple(getattr(spec, "sides", {"": spec}).values())


def _stand_in(source: OpenSource, spec: SourceSpec) -> tuple[DataFrame, FilePart | None]:
    """Return the stand-in of a source, and its files; None if it has none. If several sides have files, take one."""
    frames = streams_of_sides(source, Admission())
    specs = specs_of_sides(spec)
    parts = (
        FilePart(one, frame, (*frames[:number], *frames[number + 1 :]), number if len(specs) > 1 else None)
        for number, (one, frame) in enumerate(zip(specs, frames, strict=True))
        if isinstance(one, FileSourceSpec)
    )
    return united(source, frames), next(parts, None)
