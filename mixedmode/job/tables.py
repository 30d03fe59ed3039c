"""`mixedmode.read_table`: the table that an output of a job holds now."""

import os

import pyarrow as pa

from mixedmode.config.arguments import checked_arguments
from mixedmode.config.graph import MAIN_OUTPUT
from mixedmode.job.api import Job

__all__ = ["read_table"]


@checked_arguments
def read_table(source: Job | str | os.PathLike[str], *, output: str = MAIN_OUTPUT) -> pa.Table:
    """Return the table that an output holds now, as Arrow: the newest row of each key, or all rows without a key.

    source: an output folder or its URL, a job, or a job file. output: of a job, `sink`, the name of one of its outputs,
    or another place of an output in the job file, such as `steps[0].late`. All rows are loaded into memory;
    `.to_pandas()` makes them a pandas frame.

    Raise InvalidJobError if the output is no folder of files, or if the job has not written it yet.
    """
    from mixedmode.driver.tables import read_table_of  # noqa: PLC0415 - loads pyspark, which a job need not

    return read_table_of(source.spec if isinstance(source, Job) else source, output)
