"""Checks of the dimensions of a job: bounded tables that sql joins by name. Pure.

The settings of a dimension are those of a source, as far as they have a meaning for a table that is read whole.
"""

from collections.abc import Iterable, Iterator, Mapping

from mixedmode.config.document import Path
from mixedmode.config.fields import key_of
from mixedmode.config.graph import PREVIOUS, STEP_BEFORE
from mixedmode.config.sources import SourceSpec

__all__ = ["dimension_findings"]


def dimension_findings(dimensions: Mapping[str, SourceSpec], sources: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield the mistakes in the names and settings of dimensions.  sources: the names of the sources."""
    owners = {name.lower(): "a source" for name in sources}
    owners[PREVIOUS] = STEP_BEFORE
    for name, table in dimensions.items():
        if name.lower() in owners:
            text = f": {owners[name.lower()]} has this name already (case does not count). Choose another. found={name}"
            yield ("dimensions", name), text
        owners[name.lower()] = "another dimension"
        yield from ((("dimensions", name, key), text) for key, text in _without_effect(table))
        yield from ((("dimensions", name, *path), text) for path, text in table.dimension_findings())


def _without_effect(table: SourceSpec) -> Iterator[tuple[str, str]]:
    """Yield (key, error) of each setting that a source has and a dimension does not."""
    for name, field in type(table).model_fields.items():
        if name not in {"format", *table.dimension_settings} and getattr(table, name) != field.default:
            text = " has no effect on a dimension, of which each epoch reads the newest version, whole. Remove it."
            yield key_of(name), text
