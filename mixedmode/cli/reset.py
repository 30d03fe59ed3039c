"""`mixedmode reset JOB --to WHEN`: writes the job file of a job that starts again beside the job as it was."""

import re
from itertools import count
from pathlib import Path

from mixedmode.checkpoint.store import ObjectStore
from mixedmode.config import JobSpec
from mixedmode.config.dump import job_spec_to_yaml
from mixedmode.config.load import SQL_SUFFIX
from mixedmode.config.pipeline_project import PYTHON_SUFFIX
from mixedmode.config.reset import reset_spec
from mixedmode.config.starts import StartPoint
from mixedmode.errors import InvalidJobError

__all__ = ["write_reset"]

_SUFFIX = re.compile(r"[A-Za-z0-9_]+")


def write_reset(spec: JobSpec, file: Path, to: str, suffix: str | None) -> str:
    """Write the file of the new job beside the file of the job, and return a report.

    suffix: None: the first of _2, _3, ... for which neither a file nor a checkpoint folder exists. Raise
    InvalidJobError if a source cannot start there, or the file or the folder exists. Nothing else is changed.
    """
    point = StartPoint.parse(to)
    if suffix is not None and not _SUFFIX.fullmatch(suffix):
        msg = f"a suffix has letters, digits and _, because names of tables have no others. suffix={suffix}"
        raise InvalidJobError(msg)
    suffixes = (f"_{number}" for number in count(2)) if suffix is None else iter((suffix,))
    is_yaml = file.suffix.lower() not in {SQL_SUFFIX, PYTHON_SUFFIX}
    ending = file.suffix if is_yaml else ".yaml"  # what is written is YAML
    for chosen in suffixes:
        found, target = reset_spec(spec, point, chosen), file.with_name(f"{file.stem}{chosen}{ending}")
        folder = found.execution.checkpointing.dir
        assert folder is not None, found.name
        head = f"# The job of {file.name}, from {point} on: written by `mixedmode reset`.\n"
        if not ObjectStore(folder).list() and _is_created(target, head + job_spec_to_yaml(found)):
            return _report(spec, found, target, point)
        if suffix is not None:
            msg = f"there is such a job already. Choose another suffix. file={target}, folder={folder}"
            raise InvalidJobError(msg)
    raise AssertionError(suffix)


def _is_created(file: Path, text: str) -> bool:
    """Create a file. Return False if it exists, also since a moment; leave none that is incomplete."""
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        file.unlink(missing_ok=True)
        error.filename = str(file)  # the system names no file of a write
        raise
    return True


def _report(before: JobSpec, now: JobSpec, target: Path, point: StartPoint) -> str:
    places = [f"  {sink.place}" for sink in now.sinks.values()]
    return "\n".join(
        [
            f"{target}: the job from {point} on, with empty state",
            f"checkpoints: {now.execution.checkpointing.dir}",
            "outputs:",
            *places,
            f"The job before is unchanged, and so is its folder {before.execution.checkpointing.dir}.",
            f"Stop it, and then: mixedmode run {target}",
        ]
    )
