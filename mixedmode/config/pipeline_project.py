"""The files of a project of Spark's declarative pipelines: spark-pipeline.yml, and the Python and SQL files it names.

A single file of Python is a project, too, which has no settings of its own.

All files count as one text for the time of reading, one after the other, so one number says the file and the line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from mixedmode.config.document import Mark, Problem
from mixedmode.errors import InvalidJobError

__all__ = ["PYTHON_SUFFIX", "PipelineFile", "PipelineProject", "ProjectSetting", "is_pipeline", "read_project"]

PYTHON_SUFFIX = ".py"  #: of a project that is one file
#: the names that Spark looks for
_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_KEYS = ("name", "storage", "configuration", "libraries")
_NO_CATALOG = "A job has no catalog: a table is the folder of its `path`. Remove this key."
_OF_CATALOG = dict.fromkeys(("catalog", "database", "schema"), _NO_CATALOG)


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A file. place: its path for messages. path: its absolute path. before: the lines of all files before it."""

    place: str
    path: FilePath
    text: str
    before: int


@dataclass(frozen=True, slots=True)
class ProjectSetting:
    """A setting of the job in the project. line: as PipelineProject counts."""

    key: str
    value: str
    line: int


@dataclass(slots=True)
class PipelineProject:
    """A project. folder: that of relative paths. storage: None if there is none. settings: its `configuration`."""

    name: str
    folder: FilePath
    storage: str | None = None
    settings: list[ProjectSetting] = field(default_factory=list)
    files: list[PipelineFile] = field(default_factory=list)

    def of_suffix(self, suffix: str) -> list[PipelineFile]:
        """Return the files whose names end so."""
        return [file for file in self.files if file.path.suffix == suffix]

    def line_of(self, path: str, line: int) -> int:
        """Return the number of a line of a file among all lines; of another file, the first line."""
        return next((file.before + line for file in self.files if str(file.path) == path), 1)

    def mark(self, line: int) -> Mark:
        """Return the file and the line in it that a number among all lines says."""
        file = next((one for one in reversed(self.files) if one.before < line), self.files[0])
        return Mark(file.place, max(1, line - file.before))

    def refusal(self, wrong: Sequence[tuple[int, str]]) -> InvalidJobError:
        """Return one error for several mistakes.  wrong: (number of the line, text) of each."""
        return InvalidJobError("\n".join(str(Problem(self.mark(line), text)) for line, text in sorted(wrong)))


def is_pipeline(place: str) -> bool:
    """Return whether a file is one of a project of pipelines, and no job file."""
    return place.endswith(PYTHON_SUFFIX) or FilePath(place).name in _NAMES


def read_project(path: FilePath, place: str) -> PipelineProject:
    """Return the project of a spec file, or of a single file of Python. Raise InvalidJobError with its mistakes.

    place: the file for messages.
    """
    path = path.absolute()
    folder = path.parent
    project = PipelineProject(path.stem, folder)
    _add(project, place, path)
    if path.suffix == PYTHON_SUFFIX:
        return project
    globs = _read_spec(project)
    for line, pattern in globs:
        for found in _matching(project, line, pattern):
            if all(file.path != found for file in project.files):
                _add(project, str(FilePath(place).parent / found.relative_to(folder)), found)
    if len(project.files) == 1:
        text = "the project has no file. Add `libraries` with the files of its tables: - glob: {include: tables/**}"
        raise project.refusal([(1, text)])
    return project


def _add(project: PipelineProject, place: str, path: FilePath) -> None:
    last = project.files[-1] if project.files else None
    before = 0 if last is None else last.before + last.text.count("\n") + 1
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        msg = f"{place}: the file cannot be read. Check that it is a file of text and readable. cause={cause}"
        raise InvalidJobError(msg) from error
    project.files.append(PipelineFile(place, path, text, before))


def _read_spec(project: PipelineProject) -> list[tuple[int, str]]:
    """Read a spec file into its project, and return (line, pattern) of its files."""
    (file,) = project.files
    try:
        root = yaml.compose(file.text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise project.refusal([(line, f"this is not YAML. Correct it. cause={error.args[2]}")]) from error
    wrong = list[tuple[int, str]]()
    found = dict[str, yaml.Node]()
    for key, node in _pairs(root):
        if key.value in _KEYS:
            found[key.value] = node
        else:
            text = _OF_CATALOG.get(key.value, f"a project does not have this key. Keys here: {', '.join(_KEYS)}.")
            wrong.append((_line(key), f"{text} found={key.value}"))
    for needed in ("name", "storage"):
        if not isinstance(found.get(needed), yaml.ScalarNode):
            wrong.append((1, f"a project has a `{needed}`. Add it: {needed}: and a text."))
    wrong += _read_configuration(project, found.get("configuration"))
    libraries = found.get("libraries")
    globs = list[tuple[int, str]]()
    for entry in libraries.value if isinstance(libraries, yaml.SequenceNode) else []:
        include = _value(_value(entry, "glob"), "include")
        if isinstance(include, yaml.ScalarNode):
            globs.append((_line(include), include.value))
        else:
            wrong.append((_line(entry), "a library is a pattern of files. Write - glob: {include: tables/**}"))
    if wrong:
        raise project.refusal(wrong)
    project.name, project.storage = found["name"].value, found["storage"].value.rstrip("/")
    return globs


def _read_configuration(project: PipelineProject, configuration: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Read the settings of a project into it. Yield what is wrong."""
    for key, node in _pairs(configuration):
        if isinstance(node, yaml.ScalarNode):
            project.settings.append(ProjectSetting(key.value, node.value, _line(key)))
        else:
            yield _line(key), f"a setting has one value here. Write it as one text. found={key.value}"


def _matching(project: PipelineProject, line: int, pattern: str) -> Iterator[FilePath]:
    """Yield the files of a pattern in the order of their names: a file, or all files below `folder/**`."""
    is_tree = pattern.endswith("/**")
    name = pattern.removesuffix("/**")
    if any(sign in name for sign in "*?["):
        text = "a pattern is a file, or a folder with all files below it, as folder/**. Write one of them."
        raise project.refusal([(line, f"{text} found={pattern}")])
    at = project.folder / name
    found = sorted(path for path in at.rglob("*") if path.is_file()) if is_tree else [at]
    found = [path for path in found if "__pycache__" not in path.parts]
    if not found or not found[0].is_file():
        raise project.refusal([(line, f"there is no such file. Correct the pattern. found={pattern}")])
    for path in found:
        if path.suffix not in {PYTHON_SUFFIX, ".sql"}:
            text = "a file of tables is one of Python or SQL. Move others elsewhere. file="
            raise project.refusal([(line, f"{text}{path.relative_to(project.folder)}")])
        yield path


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    return next((value for key, value in _pairs(node) if key.value == name), None)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
