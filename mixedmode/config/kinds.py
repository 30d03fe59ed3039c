"""The kind of connector of a section, from its keys, before the section is validated.

A kind has a field `format` whose values no other kind has, or it has keys that no other kind has.
"""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from mixedmode.config.fields import Section

Kinds = Mapping[str, type[Section]]

#: the kind that is identified by one of _ITS_KEYS, and not by a format
HISTORY_AND_LIVE = "history-and-live"
_ITS_KEYS = {"history", "live"}


def formats_of(kind: type[Section]) -> tuple[str, ...]:
    """Return the values of `format` that identify a kind; () if the kind has no format."""
    field = kind.model_fields.get("format")
    return () if field is None else get_args(field.annotation)


def kind_among(kinds: Kinds) -> Callable[[Any], str | None]:
    """Return a pydantic discriminator for a union of these kinds."""

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
