"""Conversion of a call's arguments to a checked source or sink, with paths resolved against the current directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from mixedmode.config.load import checked_section, with_paths
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.sources import SourceSpec
from mixedmode.job.arguments import argument

AnyConnector = TypeVar("AnyConnector", bound=SourceSpec | SinkSpec)


def checked(model: type[AnyConnector], values: Mapping[str, Any], *, place: str) -> AnyConnector:
    """Return the source or sink with these values, by the keys of a job file.

    place: the call, for messages, which name its arguments. Raises InvalidJobError with everything that is wrong.
    """
    return with_paths(checked_section(model, values, place=place, name=argument), Path())
