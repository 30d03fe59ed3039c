"""Job files of commands that run or plan a job: their mistakes are one report, with those that only Spark finds."""

from collections.abc import Sequence
from pathlib import Path

from mixedmode.cli.doctor import require_environment
from mixedmode.config import LoadedJob, read_job
from mixedmode.errors import RetryableError

__all__ = ["checked_job"]


def checked_job(file: Path, overrides: Sequence[str]) -> LoadedJob:
    """Return the job in a file. Raise InvalidJobError with its mistakes, also those of SQL and columns.

    Spark is started only for a job with mistakes. If this machine cannot run it, its part of the report is left out.
    """
    found = read_job(file, overrides)
    if isinstance(found, LoadedJob):
        return found
    if found.parts is None:
        raise found.refusal()
    try:
        require_environment([])
    except RetryableError:
        raise found.refusal() from None
    from mixedmode.driver.planning import further_mistakes

    raise found.refusal(further_mistakes(found))
