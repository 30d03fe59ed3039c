"""The places that a source reads or a sink writes, as overlaps.py compares them."""

from dataclasses import dataclass

from mixedmode.config.document import Path


@dataclass(frozen=True, slots=True)
class UsedPlace:
    """Files below `path`, or things with names. Two places with a name in common are one place.

    key: the setting, below the section of the source or sink; `found`: its value. is_pattern: `path` may be a glob.
    shared: distinguishes what may lie in one file, such as the tables of a SQLite database. A name may end with
    ` ~pattern`, a regular expression for what follows the space in other names.
    """

    key: Path
    found: str
    path: str | None = None
    is_pattern: bool = False
    names: frozenset[str] = frozenset()
    shared: str = ""
