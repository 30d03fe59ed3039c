"""The tables that the outputs of a job hold now."""

import os
from pathlib import Path

import pyarrow as pa

from mixedmode.config import JobSpec
from mixedmode.config.graph import MAIN_OUTPUT, output_name
from mixedmode.config.load import load_job
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.table import read_output

__all__ = ["read_table_of"]

_JOB_FILES = (".yaml", ".yml")


def read_table_of(source: JobSpec | str | os.PathLike[str], output: str = MAIN_OUTPUT) -> pa.Table:
    """Return the table in an output folder, or in an output of a job or job file."""
    if not isinstance(source, JobSpec):
        if Path(source).suffix not in _JOB_FILES:
            return read_output(source)
        source = load_job(source).spec
    sinks = {output_name(path): sink for path, sink in source.sinks.items()}
    if output not in sinks:
        hint = did_you_mean(output, sinks)
        msg = f"the job has no output {output}.{hint} Name one of its outputs: {', '.join(sinks)}."
        raise InvalidJobError(msg)
    folder = sinks[output].folder
    if folder is None:
        msg = (
            "this output is no folder of files, so it is read where it writes: PostgreSQL with psql, SQLite with "
            "sqlite3, Kafka with a consumer, a table of a catalog with Spark. "
            f"output={output}, sink={sinks[output].place}"
        )
        raise InvalidJobError(msg)
    return read_output(folder)
