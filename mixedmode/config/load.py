"""Conversion of job files and mappings to a JobSpec.

Only this module opens a job file and knows the folder against which its paths are resolved.
All errors are reported at once, one line each in the order of the file:
`job.yaml:12: execution.runtime-mod is not a known key. Did you mean runtime-mode? Known keys here: ...`
`read_job` also returns the valid parts of a job with errors, so that Spark can check these parts for the same report.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from mixedmode.config.document import Document, Mark, Path, Problem, in_order, path_text
from mixedmode.config.fields import Section
from mixedmode.config.function_settings import CustomClass
from mixedmode.config.messages import Name, findings
from mixedmode.config.overlaps import overlap_findings
from mixedmode.config.parts import JobParts, valid_fields, valid_parts, without_wrong_settings
from mixedmode.config.pipeline_process import pipeline_document
from mixedmode.config.pipeline_project import is_pipeline
from mixedmode.config.reader import document_of, read_document
from mixedmode.config.spec import JobSettings, JobSpec
from mixedmode.config.sql_file import sql_tree
from mixedmode.config.step_outputs import own_section, side_outputs_of, with_settings, with_side_outputs
from mixedmode.errors import InvalidJobError, MixedmodeError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")

#: how the name of a job file ends that is SQL
SQL_SUFFIX = ".sql"
#: fields of sources and sinks that hold paths
_PATHS = {"path", "folder", "folder_", "schema_file"}

_A_SOURCE = "one of `Source`, such as Source.parquet(path)"
#: {a word of messages about job files: what Python calls it}
_OF_PYTHON = {
    "a section of keys": "a dictionary",
    "true or false": "True or False",
    "nothing": "None",
    **dict.fromkeys(("source", "history", "live", "dimension"), _A_SOURCE),
    "sink": "one of `Sink`, such as Sink.parquet(path)",
    "side output": "one of `side_output`, such as side_output(Sink.parquet(path), schema=...)",
}

AnySection = TypeVar("AnySection", bound=Section)
AnyJob = TypeVar("AnyJob", bound=JobSettings)


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job with the places of its settings, for errors that are found later, such as Spark's about SQL."""

    spec: JobSpec
    document: Document

    def where(self, *path: str | int) -> str:
        """Return the start of a message about the setting at `path`: see Document.where."""
        return self.document.where(*path)


@dataclass(frozen=True, slots=True)
class FaultyJob:
    """A job with mistakes. `parts` is what is left to check with Spark; None if there is nothing."""

    document: Document
    problems: tuple[Problem, ...]
    parts: JobParts | None

    def refusal(self, further: Iterable[MixedmodeError] = ()) -> InvalidJobError:
        """Return one error for all mistakes, in the order of the file.  further: mistakes that Spark has found."""
        return InvalidJobError("\n".join(in_order([*map(str, self.problems), *map(str, further)])))


def read_job(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> LoadedJob | FaultyJob:
    """Return the job in a file, or its mistakes, with `key=value` overrides (--set) that replace what the file says.

    A file whose name ends in .sql is SQL (sql_file.py), one of Python or a spark-pipeline.yml a project of pipelines
    (pipeline_process.py), and any other one YAML. Relative paths are resolved against the
    file's folder, those in overrides too. Raises InvalidJobError if the file cannot be read, or is neither.
    """
    place = os.fspath(path)
    text = _read_text(place)
    if is_pipeline(place):
        document = pipeline_document(place, overrides)
    elif place.lower().endswith(SQL_SUFFIX):
        document = document_of(sql_tree(text, place, FilePath(place).stem), place, overrides, is_sql=True)
    else:
        document = read_document(text, place, overrides)
    return _validated(document, FilePath(place).parent)


def load_job(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> LoadedJob:
    """Return the job as read_job does. Raises InvalidJobError with all errors that can be found without Spark."""
    return _valid(read_job(path, overrides))


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
    return _valid(_validated(read_document(text, ""), FilePath())).spec


def checked_section(model: type[AnySection], values: Mapping[str, Any], *, place: str, name: Name) -> AnySection:
    """Return one validated section, for the Python API, whose messages have Python's words.

    place: the call, for messages. name: spells a path as the call's argument. Raises InvalidJobError with all errors.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [Problem(Mark(place), text) for _, text in findings(error, model, name=name, terms=_OF_PYTHON)]
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
        "dimensions": {name: with_paths(table, folder) for name, table in job.dimensions.items()},
        "functions": {
            name: one.model_copy(update={"folder": resolve_path(one.folder or "", folder)})
            for name, one in job.functions.items()
        },
    }
    if job.serve is not None:
        serve = resolve_field(resolve_field(job.serve, "cert", folder), "key", folder)
        update["serve"] = resolve_field(serve, "savepoints", folder)
    if isinstance(job, JobSpec):
        update["sink"] = None if job.sink is None else with_paths(job.sink, folder)
        update["outputs"] = {name: with_paths(sink, folder) for name, sink in job.outputs.items()}
        update["steps"] = tuple(resolve_step(step, folder) for step in job.steps)
    return job.model_copy(update=update)


def resolve_step(step: AnySection, folder: FilePath) -> AnySection:
    """Return the same step with the paths of its outputs and of its code resolved against `folder`."""
    step = with_side_outputs(step, {path: with_paths(sink, folder) for path, sink in side_outputs_of(step).items()})
    _, own = own_section(step)
    if not isinstance(own, CustomClass):
        return step
    return with_settings(step, {"folder": resolve_path(own.folder or "", folder)})


def with_paths(section: AnySection, folder: FilePath) -> AnySection:
    """Return the same source or sink, with every relative path in it resolved against `folder`.

    A setting that is left out stays so, unless its default is a path.
    """
    update: dict[str, Any] = {}
    for name, value in section:
        if isinstance(value, Section):
            resolved: Any = with_paths(value, folder)
            if resolved is not value:
                update[name] = resolved
        elif name in _PATHS and isinstance(value, str):
            update[name] = resolve_path(value, folder)
    return section.model_copy(update=update) if update else section


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


def _valid(found: LoadedJob | FaultyJob) -> LoadedJob:
    if isinstance(found, FaultyJob):
        raise found.refusal()
    return found


def _validated(document: Document, folder: FilePath) -> LoadedJob | FaultyJob:
    """Return the job in a document, with its paths resolved against `folder`, or its mistakes."""

    def written(path: Path, value: Any) -> str:
        mark = document.marks.get(path_text(path))
        return str(value) if mark is None or mark.text is None else mark.text

    found: list[tuple[Path, str]] = []
    parts: JobParts | None
    try:
        parts, valid = JobParts.whole(JobSpec.model_validate(document.values)), set(JobSpec.model_fields)
    except ValidationError as error:
        found += findings(error, JobSpec, written=written)
        reduced, partial = without_wrong_settings(document.values, [path for path, _ in found])
        found += [one for one in _findings_of(reduced, written) if one not in found]
        valid = valid_fields(error) - {str(path[0]) for path, _ in found if len(path) == 1}
        parts = valid_parts(reduced, valid, partial)
    if parts is not None:
        joint, parts = _joint_findings(parts, valid, folder)
        known = set(found)
        found += [(path, path_text(path) + text) for path, text in joint if (path, path_text(path) + text) not in known]
    problems = [*document.problems, *(Problem(document.mark(path), text) for path, text in found)]
    if problems:
        return FaultyJob(document, tuple(problems), parts)
    assert parts is not None, "a job without mistakes is whole"
    return LoadedJob(parts.spec, document)


def _findings_of(values: Mapping[str, Any], written: Callable[[Path, Any], str]) -> list[tuple[Path, str]]:
    try:
        JobSpec.model_validate(values)
    except ValidationError as error:
        return list(findings(error, JobSpec, written=written))
    return []


def _joint_findings(
    parts: JobParts, valid: Collection[str], folder: FilePath
) -> tuple[list[tuple[Path, str]], JobParts]:
    """Return the errors of valid sections taken together, and the parts with resolved paths without their subjects."""
    joint = list(parts.spec.joint_findings(valid))
    spec = resolve_paths(parts.spec, folder)
    if {"steps", "sink", "outputs"}.issubset(valid):  # of the other sections, the valid parts have places
        joint += overlap_findings(spec)
    steps = tuple(None if step is None else resolve_step(step, folder) for step in parts.steps)
    return joint, replace(parts, spec=spec, steps=steps).without([path for path, _ in joint])


def _invalid(problems: Sequence[Problem]) -> InvalidJobError:
    """Return one error for all problems. Those with a line come first, in the order of the file."""
    return InvalidJobError("\n".join(in_order(map(str, problems))))


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
