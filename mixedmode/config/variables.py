"""The variables of the environment that the settings of a job name."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from mixedmode.config.document import Path
from mixedmode.config.fields import SQL_FIELDS, Section, key_of
from mixedmode.secrets import variables_in


def unset_variables(section: Section) -> Iterator[tuple[Path, str]]:
    """Yield (path of the setting, name) of each variable that a section names and this process does not have."""
    return ((path, name) for path, name in _variables(section, ()) if name not in os.environ)


def _variables(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield from ((path, name) for name in variables_in(value))
    elif isinstance(value, Section):
        for name, one in value:
            if name not in SQL_FIELDS:
                yield from _variables(one, (*path, key_of(name)))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _variables(one, (*path, key))
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _variables(one, (*path, index))
