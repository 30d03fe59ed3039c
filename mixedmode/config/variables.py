"""The variables of the environment that the settings of a job name."""

import os
from collections.abc import Iterator

from mixedmode.config.document import Path
from mixedmode.config.fields import Section, texts_in
from mixedmode.secrets import variables_in


def unset_variables(section: Section) -> Iterator[tuple[Path, str]]:
    """Yield (path of the setting, name) of each variable that a section names and this process does not have."""
    for path, text in texts_in(section, ()):
        yield from ((path, name) for name in variables_in(text) if name not in os.environ)
