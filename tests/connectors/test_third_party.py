"""A package of somebody else adds a format: in job files, in Python, in messages, and in a run.

The package is tests/connectors/third_party, with the metadata of an installed one. Nothing of ours names it.
"""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixedmode import Job, Sink, Source, side_output
from mixedmode.config import job_spec_from_mapping, load_job
from mixedmode.config.registry import GROUP, ConnectorKind, connector_kinds, loaded
from mixedmode.config.sinks import SideOutputSpec
from mixedmode.errors import InvalidJobError
from mixedmode.spark.errors import explained

ROOT = Path(__file__).parents[2]
PACKAGES = Path(__file__).parent / "third_party"
JOB = """\
name: words
execution.runtime-mode: batch
sources:
  words: {format: lines, path: words.txt, column-name: word}
steps:
  - key-by: word
    aggregate: {n: count(*)}
sink: {format: lines, path: out, separator: "="}
"""


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is installed, as far as this process can see."""
    monkeypatch.syspath_prepend(str(PACKAGES))
    connector_kinds.cache_clear()
    yield
    connector_kinds.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "lines_connector"]:
        del sys.modules[name]


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text("to\nbe\nor\nnot\nto\nbe\n")
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return file


@pytest.mark.usefixtures("_installed")
def test_a_job_file_may_name_its_format_and_paths_are_resolved(job_file: Path, tmp_path: Path) -> None:
    spec = load_job(job_file).spec
    assert spec.sources["words"].place == f"lines {tmp_path / 'words.txt'}"
    assert spec.results[""].folder == str(tmp_path / "out")
    assert job_spec_from_mapping(spec.as_document()) == spec


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "format: lines, path: words",
            "format: line, path: words",
            (
                "4: sources.words.format cannot be line. Did you mean lines? Known values: csv, custom, delta, "
                "iceberg, json, kafka, lines, parquet."
            ),
        ),
        ("path: words.txt, ", "", "4: sources.words.path is missing: a file or folder of text. Add it."),
        ("column-name", "column-nam", "4: sources.words.column-nam is not a known key. Did you mean column-name? "),
        ("path: out", "path: words.txt", "8: sink.path: sources.words.path reads this place, or one in it or around"),
        (
            "format: lines, path: out",
            "format: console",
            "8: sink.separator is for another format: lines. Remove it, or change the format.",
        ),
    ],
)
def test_mistakes_have_the_same_messages_as_for_our_kinds(job_file: Path, old: str, new: str, message: str) -> None:
    job_file.write_text(JOB.replace(old, new))
    with pytest.raises(InvalidJobError) as caught:
        load_job(job_file)
    assert str(caught.value).startswith(f"{job_file}:{message}")


@pytest.mark.usefixtures("_installed")
def test_it_is_the_same_in_python(job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = Source.of("lines", path="words.txt", column_name="word")
    sink = Sink.of("lines", path=Path("out"), separator="=")
    job = Job("words", sources={"words": source}, mode="batch").key_by("word").aggregate(n="count(*)").write(sink)
    assert job.spec == load_job(job_file).spec


@pytest.mark.usefixtures("_installed")
def test_a_sink_is_also_a_side_output_and_a_sink_of_dead_letters() -> None:
    side = side_output(Sink.of("lines", path="/side"), schema="a string")
    assert isinstance(side, SideOutputSpec)
    assert (side.schema_ddl, side.folder) == ("a string", "/side")
    source = Source.csv("/in", schema="a int", undecodable="dead-letter", dead_letter=Sink.of("lines", path="/wrong"))
    assert source.outputs["dead-letter",].place == "lines /wrong"


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"path": "/in", "out_of_orderness": "1s"},
            "Source.of: out_of_orderness has no effect without event-time. Name the column in event-time, or ",
        ),
        ({"path": 5}, "Source.of: path must be text, not a whole number. Put it in quotes. found=5"),
        ({"path": "/in", "column_name": ""}, "Source.of: column_name must not be empty."),
    ],
)
def test_mistakes_in_python_name_the_argument(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        Source.of("lines", **arguments)
    assert str(caught.value).startswith(message)


def test_a_format_of_a_package_that_is_not_installed_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidJobError) as caught:
        Sink.of("line", path="/out")
    known = "console, csv, custom, delta, iceberg, json, kafka, parquet, postgres, sqlite"
    assert str(caught.value) == f"Sink.of: format cannot be line. Known values: {known}."


@pytest.mark.usefixtures("_installed")
def test_its_errors_are_explained_by_itself() -> None:
    found = explained(RuntimeError("TORN_LINES at 7"), log_file="run.log")
    assert str(found) == "a file of lines is torn. Mend it, log=run.log"


def test_it_runs(job_file: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, "-m", "mixedmode", "run", str(job_file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = (tmp_path / "out" / "0.txt").read_text().split()
    assert sorted("=".join(row.split("=")[:2]) for row in rows) == ["be=2", "not=1", "or=1", "to=2"]


class _Entries:
    """Entry points as importlib.metadata gives them."""

    def __init__(self, **values: str) -> None:
        self._entries = [importlib.metadata.EntryPoint(name, value, GROUP) for name, value in values.items()]

    def __call__(self, *, group: str) -> list[importlib.metadata.EntryPoint]:
        assert group == GROUP
        return self._entries


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            {"broken": "no_such_module.kind:KIND"},
            (
                "a package that adds a connector cannot be used: its entry point is no ConnectorKind. Correct or "
                "remove the package. package=unknown, entry point=broken, value=no_such_module.kind:KIND, "
                "cause=ModuleNotFoundError: No module named 'no_such_module'"
            ),
        ),
        ({"wrong": "pathlib:Path"}, "a package that adds a connector cannot be used: its entry point is no Connector"),
        (
            {"second": "tests.connectors.test_third_party:SECOND"},
            "two installed packages add a sink of one format. Remove one of them. format=console, entry points=",
        ),
    ],
)
def test_a_package_that_cannot_be_used_is_named(
    others: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = {"console": "mixedmode.connectors.console.kind:KIND"}
    monkeypatch.setitem(sys.modules, "tests.connectors.test_third_party", sys.modules[__name__])
    monkeypatch.setattr("mixedmode.config.registry.entry_points", _Entries(**console, **others))
    connector_kinds.cache_clear()
    try:
        with pytest.raises(InvalidJobError) as caught:
            connector_kinds()
        assert str(caught.value).startswith(message)
    finally:
        connector_kinds.cache_clear()


def test_an_installation_without_our_kinds_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixedmode.config.registry.entry_points", _Entries())
    connector_kinds.cache_clear()
    try:
        with pytest.raises(InvalidJobError, match=r"names none of its connectors.* Install mixedmode again"):
            connector_kinds()
    finally:
        connector_kinds.cache_clear()


def test_every_folder_of_a_connector_is_registered_under_the_name_of_its_kind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    registered = project["entry-points"][GROUP]
    folders = {path.parent.name for path in (ROOT / "mixedmode" / "connectors").glob("*/kind.py")}
    assert set(registered.values()) == {f"mixedmode.connectors.{folder}.kind:KIND" for folder in folders}
    assert {name: loaded(reference).name for name, reference in registered.items()} == {
        name: name for name in registered
    }
    assert connector_kinds().keys() == registered.keys(), "the installation is older than the code"


def test_what_a_kind_names_as_text_exists() -> None:
    references = [
        reference
        for kind in connector_kinds().values()
        for package in [None, *kind.packages.values()]
        for reference in (
            *(
                kind.open_source,
                kind.open_sink,
                kind.check_library,
                kind.check_options,
                kind.check_service,
                kind.errors,
            ),
            None if package is None else package.jars,
        )
        if reference is not None
    ]
    assert len(references) > len(connector_kinds())
    assert all(callable(loaded(reference)) for reference in references)


def test_settings_are_checked_without_spark() -> None:
    code = (
        "import sys, mixedmode.job; from mixedmode.config.registry import connector_kinds; connector_kinds()\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


SECOND = ConnectorKind("second", sink=connector_kinds()["console"].sink, open_sink="a:b")
