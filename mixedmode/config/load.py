"""Conversion of job files and mappings to a JobSpec.

Only this module opens a job file and knows the folder against which its paths are resolved.
All errors are reported at once, one line each in the order of the file:
`job.yaml:12: execution.runtime-mod is not a known key. Did you mean runtime-mode? Known keys here: ...`
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from mixedmode.config.document import Document, Mark, Path, Problem, path_text
from mixedmode.config.fields import Section
from mixedmode.config.messages import Name, findings
from mixedmode.config.overlaps import overlap_findings
from mixedmode.config.reader import read_document
from mixedmode.config.spec import JobSettings, JobSpec
from mixedmode.config.steps import KeyedAggregateStep, MapStep, ProcessStep
from mixedmode.errors import InvalidJobError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")

#: fields of sources and sinks that hold paths
_PATHS = {"path", "folder", "folder_", "schema_file"}

AnySection = TypeVar("AnySection", bound=Section)
AnyJob = TypeVar("AnyJob", bound=JobSettings)


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job with the places of its settings, for errors that are found later, such as Spark's about SQL."""

    spec: JobSpec
    document: Document

    def where(self, *path: str | int) -> str:
        """Return the start of a message about the setting at `path`: `job.yaml:17: steps[0].sql`.

        The line is that of the section around the setting if the file does not have the setting.
        """
        mark = self.document.mark(path)
        return f"{mark}: {path_text(path)}" if mark.place else path_text(path)


def load_job(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> LoadedJob:
    """Return the job in a file, with `key=value` overrides (the command line's --set) that replace what the file says.

    Relative paths are resolved against the file's folder, those in overrides too. Raises InvalidJobError with all
    errors.
    """
    place = os.fspath(path)
    document = read_document(_read_text(place), place, overrides)
    return LoadedJob(_validated(document, FilePath(place).parent), document)


def load_job_spec(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> JobSpec:
    """Return the job as load_job does, without the places."""
    return load_job(path, overrides).spec


def job_spec_from_mapping(mapping: Mapping[str, Any]) -> JobSpec:
    """Return the job in a mapping with the keys of a job file, nested or dotted.

    Relative paths are resolved against the current directory. Raises InvalidJobError with all errors.
    """
    try:
        text = yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        found = error.args[-1]
        msg = f"a job is made of text, numbers, lists and mappings. Convert what is something else. found={found!r}"
        raise InvalidJobError(msg) from error
    except RecursionError as error:
        msg = "lists and mappings of the job are nested too deep, or contain themselves. Make them flatter."
        raise InvalidJobError(msg) from error
    return _validated(read_document(text, ""), FilePath())


def checked_section(model: type[AnySection], values: Mapping[str, Any], *, place: str, name: Name) -> AnySection:
    """Return one validated section, for the Python API.

    place: the call, for messages. name: spells a path as the call's argument. Raises InvalidJobError with all errors.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [Problem(Mark(place), text) for _, text in findings(error, model, name=name)]
        raise _invalid(problems) from error


def check_places(job: JobSpec, *, place: str, name: Name) -> None:
    """Raise InvalidJobError if the job reads where it writes, or writes twice to one place.

    place and name are as for checked_section.
    """
    problems = [Problem(Mark(place), name(path) + text) for path, text in overlap_findings(job)]
    if problems:
        raise _invalid(problems)


def resolve_paths(job: AnyJob, folder: FilePath) -> AnyJob:
    """Return the same job, or job settings, with every relative path resolved against `folder`."""
    checkpointing = resolve_field(job.execution.checkpointing, "dir", folder)
    update: dict[str, Any] = {
        "execution": job.execution.model_copy(update={"checkpointing": checkpointing}),
        "sources": {name: with_paths(source, folder) for name, source in job.sources.items()},
    }
    if isinstance(job, JobSpec):
        update["sink"] = with_paths(job.sink, folder)
        update["steps"] = tuple(resolve_step(step, folder) for step in job.steps)
    return job.model_copy(update=update)


def resolve_step(step: AnySection, folder: FilePath) -> AnySection:
    """Return the same step with the paths of its outputs and of its code resolved against `folder`."""
    if isinstance(step, KeyedAggregateStep) and step.late is not None:
        return step.model_copy(update={"late": with_paths(step.late, folder)})
    if isinstance(step, MapStep):
        return step.model_copy(update={"folder": resolve_path(step.folder or "", folder)})
    if isinstance(step, ProcessStep):
        update: dict[str, Any] = {
            "folder": resolve_path(step.folder or "", folder),
            "outputs": {tag: with_paths(sink, folder) for tag, sink in step.outputs.items()},
        }
        if step.dead_letter is not None:
            update["dead_letter"] = with_paths(step.dead_letter, folder)
        return step.model_copy(update=update)
    return step


def with_paths(section: AnySection, folder: FilePath) -> AnySection:
    """Return the same source or sink, with every relative path in it resolved against `folder`."""
    update: dict[str, Any] = {}
    for name, value in section:
        if isinstance(value, Section):
            update[name] = with_paths(value, folder)
        elif name in _PATHS and isinstance(value, str):
            update[name] = resolve_path(value, folder)
    return section.model_copy(update=update)


def resolve_field(section: AnySection, field_name: str, folder: FilePath) -> AnySection:
    """Return the same section with the path in one of its fields, if it is set, resolved against `folder`."""
    path: str | None = getattr(section, field_name)
    return section if path is None else section.model_copy(update={field_name: resolve_path(path, folder)})


def resolve_path(path: str, folder: FilePath) -> str:
    """Return `path` resolved against `folder`. URLs other than file: and absolute paths are unchanged."""
    if path.startswith("file:/"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if _URL.match(path) or FilePath(path).is_absolute():
        return path
    return os.path.normpath(folder.absolute() / path)


def _validated(document: Document, folder: FilePath) -> JobSpec:
    """Return the job in a document, with its paths resolved against `folder`."""
    problems = list(document.problems)
    spec: JobSpec | None = None

    def written(path: Path, value: Any) -> str:
        mark = document.marks.get(path_text(path))
        return str(value) if mark is None or mark.text is None else mark.text

    try:
        spec = resolve_paths(JobSpec.model_validate(document.values), folder)
        problems += [Problem(document.mark(path), path_text(path) + text) for path, text in overlap_findings(spec)]
    except ValidationError as error:
        problems += [Problem(document.mark(path), text) for path, text in findings(error, JobSpec, written=written)]
    if spec is None or problems:
        raise _invalid(problems)
    return spec


def _invalid(problems: Sequence[Problem]) -> InvalidJobError:
    """Return one error for all problems. Those with a line come first, in the order of the file."""
    in_order = sorted(problems, key=lambda problem: (problem.mark.line == 0, problem.mark.line))
    return InvalidJobError("\n".join(str(problem) for problem in in_order))


def _read_text(place: str) -> str:
    try:
        return FilePath(place).read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        msg = f"{place}: there is no such file. Check the path. directory={FilePath.cwd()}"
        raise InvalidJobError(msg) from error
    except IsADirectoryError as error:
        msg = f"{place}: this is a directory. Name the job file in it."
        raise InvalidJobError(msg) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        msg = f"{place}:{line}: this is not UTF-8 text. Save the file as UTF-8. byte=0x{error.object[error.start]:02x}"
        raise InvalidJobError(msg) from error
    except OSError as error:
        msg = f"{place}: the file cannot be read. Check that it is a file and readable. cause={error.strerror}"
        raise InvalidJobError(msg) from error
