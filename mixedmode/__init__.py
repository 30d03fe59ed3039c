"""mixedmode: one stateful job over years of history and then over live data, on Spark.

    from mixedmode import Job, SideOutput, Sink, Source, open_state, output_files, read_output, read_state, read_table

The names load when they are first used, so that `mixedmode doctor` runs where a package is missing.
"""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixedmode.driver.state_source import register_state_source
    from mixedmode.job import Job, SideOutput, Sink, Source, read_table
    from mixedmode.queryable import open_state, read_state
    from mixedmode.sinks.table import output_files, read_output

__all__ = [
    "Job",
    "SideOutput",
    "Sink",
    "Source",
    "open_state",
    "output_files",
    "read_output",
    "read_state",
    "read_table",
    "register_state_source",
]
_OF_OUTPUTS = {"output_files", "read_output"}
_OF_STATE = {"open_state", "read_state"}

# the program that imports mixedmode decides where log lines go (mixedmode/log.py)
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _OF_OUTPUTS:
        import mixedmode.sinks.table  # noqa: PLC0415 - on first use

        return getattr(mixedmode.sinks.table, name)
    if name in _OF_STATE:
        import mixedmode.queryable  # noqa: PLC0415 - on first use

        return getattr(mixedmode.queryable, name)
    if name == "register_state_source":
        import mixedmode.driver.state_source  # noqa: PLC0415 - on first use

        return mixedmode.driver.state_source.register_state_source
    if name in __all__:
        import mixedmode.job  # noqa: PLC0415 - on first use

        return getattr(mixedmode.job, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
