"""mixedmode: one stateful job over years of history and then over live data, on Spark.

    from mixedmode import Job, Sink, Source, side_output, open_state, output_files, read_output, read_state, read_table
    from mixedmode import register_state_source

The names load when they are first used, so that `mixedmode doctor` runs where a package is missing.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixedmode.driver.state_source import register_state_source
    from mixedmode.job import Job, Sink, Source, read_table, side_output
    from mixedmode.queryable import open_state, read_state
    from mixedmode.sinks.table import output_files, read_output

__all__ = [
    "Job",
    "Sink",
    "Source",
    "open_state",
    "output_files",
    "read_output",
    "read_state",
    "read_table",
    "register_state_source",
    "side_output",
]
#: {name: its module}, of those that are not in mixedmode.job
_MODULES = {
    "open_state": "mixedmode.queryable",
    "output_files": "mixedmode.sinks.table",
    "read_output": "mixedmode.sinks.table",
    "read_state": "mixedmode.queryable",
    "register_state_source": "mixedmode.driver.state_source",
}

# the program that imports mixedmode decides where log lines go (mixedmode/log.py)
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, "mixedmode.job")), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
