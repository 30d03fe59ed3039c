"""Which kind of connector a section is of, among those that may stand there: told by its keys, before it is read.

The one idea: a kind has a field `format` whose values are its own, or it is told by keys that no other kind has.
"""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from mixedmode.config.fields import Section

Kinds = Mapping[str, type[Section]]

#: the kind that is told by one of these keys, and not by a format
HISTORY_AND_LIVE = "history-and-live"
_ITS_KEYS = {"history", "live"}


def formats_of(kind: type[Section]) -> tuple[str, ...]:
    """The values of `format` that tell a kind; () if another key tells it."""
    field = kind.model_fields.get("format")
    return () if field is None else get_args(field.annotation)


def kind_among(kinds: Kinds) -> Callable[[Any], str | None]:
    """A discriminator of pydantic's for a union of these kinds."""

    def kind_of(section: Any) -> str | None:
        """The kind that is meant; an unknown format stands for itself, for the message; None without one."""
        if isinstance(section, Section):
            return next((name for name, kind in kinds.items() if isinstance(section, kind)), None)
        if not isinstance(section, Mapping):
            return None
        if HISTORY_AND_LIVE in kinds and _ITS_KEYS & section.keys():
            return HISTORY_AND_LIVE
        if section.get("format") is None:
            return None
        found = str(section["format"])
        return next((name for name, kind in kinds.items() if found in formats_of(kind)), found)

    return kind_of
