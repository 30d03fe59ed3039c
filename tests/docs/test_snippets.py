"""The documents, held against the code: job files in them are valid, Python runs, tables list what there is.

A document is text with fenced blocks and tables, so each check compares one kind of them with the code.
A YAML block is a whole job, or a part of one, which is laid over a small whole one. Python runs up to where Spark
would start.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin

import pyarrow as pa
import pytest
import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mixedmode import Job, errors
from mixedmode.checkpoint.types import Epoch, Manifest
from mixedmode.config import AGGREGATE_FUNCTIONS, JobSpec, format_bytes, format_duration_ms, load_job, resolve_mode
from mixedmode.config.connectors import role_of
from mixedmode.config.fields import Section, key_of
from mixedmode.config.sinks import SinkSpec
from mixedmode.config.steps import STEP_KINDS
from mixedmode.connectors.files.compact import compact_output
from mixedmode.connectors.files.sink import FileSink
from mixedmode.crash_points import CrashPoint
from mixedmode.driver.events import EpochCommitted, Flipped, PhaseBegan
from mixedmode.driver.observers import Observers
from mixedmode.driver.run import RunOptions
from mixedmode.errors import MixedmodeError
from mixedmode.job import Sink, Source
from mixedmode.job.arguments import JobArguments
from mixedmode.job.keyed import WindowArguments
from mixedmode.sinks.files import SinkTask
from mixedmode.spark.settings import _DEFAULTS
from tests.queryable.jobs import RunningJob
from tests.staging import stage

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WHOLE_JOB = {"name", "sources", "steps"}
AROUND_A_PART = """\
name: around-a-part
execution.checkpointing.dir: ./run/checkpoints
sources: {events: {format: parquet, path: data/events, event-time: at}}
steps: [{sql: SELECT * FROM events}]
sink: {format: console}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; its `str` is `file:line`."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def blocks(language: str) -> list[Block]:
    """All blocks of a language, in all documents."""
    texts = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}
    return [
        Block(path, text.count("\n", 0, match.start()) + 1, match[2])
        for path, text in texts.items()
        for match in FENCE.finditer(text)
        if match[1] == language
    ]


def the_block(language: str, path: str) -> Block:
    """The first block of a language in one document."""
    return next(block for block in blocks(language) if block.path == ROOT / path)


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows_of_tables(text: str, heading: str) -> list[list[str]]:
    """The cells of all tables whose first column has this heading, without back quotes; no cell has a bare `|`."""
    rows, inside = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == heading:
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            rows.append(cells)
    return rows


def code_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- job files -------------------------------------------------------------------------------------------------------


def job_text(block: Block) -> str:
    """The block, if it is a whole job; else a small whole job with the block in place of the sections that it has."""
    given = yaml.safe_load(block.text)
    assert isinstance(given, dict), f"{block} is not a section of keys"
    if is_whole(given):
        return block.text
    around = yaml.safe_load(AROUND_A_PART)
    kept = {key: value for key, value in around.items() if key not in given}
    if "dir:" in block.text:
        kept.pop("execution.checkpointing.dir", None)
    return yaml.safe_dump(kept) + block.text


def is_whole(given: Mapping[str, Any]) -> bool:
    return set(given) >= WHOLE_JOB and bool(set(given) & {"sink", "outputs"})


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_a_job_file_in_the_documents_is_valid(block: Block, folder: Path) -> None:
    (folder / "job.yaml").write_text(job_text(block), encoding="utf-8")
    loaded = load_job("job.yaml")
    assert resolve_mode(loaded.spec).mode in {"batch", "streaming", "mixed"}


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
def test_a_sql_file_in_the_documents_is_valid(block: Block, folder: Path) -> None:
    (folder / "job.sql").write_text(block.text, encoding="utf-8")
    loaded = load_job("job.sql")
    assert resolve_mode(loaded.spec).mode in {"batch", "streaming", "mixed"}


def test_a_part_of_a_job_file_with_a_misspelt_key_would_be_found(folder: Path) -> None:
    part = Block(ROOT / "README.md", 1, "pipeline: {max-paralelism: 4}\n")
    (folder / "job.yaml").write_text(job_text(part), encoding="utf-8")
    with pytest.raises(errors.InvalidJobError, match="max-parallelism"):
        load_job("job.yaml")


def test_there_are_job_files_whole_and_in_part() -> None:
    whole = [block for block in blocks("yaml") if is_whole(yaml.safe_load(block.text))]
    assert len(whole) >= 2
    assert len(blocks("yaml")) > len(whole)


# --- Python ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """The specs that `Job.run` would have run."""
    specs: list[JobSpec] = []

    def run_job(spec: JobSpec, where: object, options: RunOptions) -> None:
        assert callable(where)
        assert isinstance(options, RunOptions)
        specs.append(spec)

    monkeypatch.setattr("mixedmode.driver.run.run_job", run_job)
    return specs


def output_of_two_epochs(out: Path) -> None:
    """An upsert output by `origin` with an insert, an update and a delete."""
    sink = FileSink("airport-delays", str(out), "parquet", replaces=False)
    fields = [pa.field("origin", pa.string()), pa.field("flights", pa.int64())]
    sink.prepare(fields, ["origin"], is_fresh=True)
    epochs = [
        {"origin": ["LAX", "SFO", "JFK"], "flights": [1, 2, 3], "_op": ["insert", "insert", "insert"]},
        {"origin": ["SFO", "JFK"], "flights": [5, None], "_op": ["update", "delete"]},
    ]
    for number, columns in enumerate(epochs):
        scratch = out.with_name(f"scratch-{number}")  # a stored file keeps the bytes of the local one
        sink.publish(Epoch(number), stage(sink.task, scratch, f"u{number}", pa.table(columns), epoch=number))


def state_of_an_epoch(run: Path) -> None:
    """Checkpoints of a job that counts rows by `k`."""
    job = RunningJob(run, lambda job: job.key_by("k").aggregate(flights="count(*)"))
    job.epoch([{"k": origin, "v": 1, "at": 0} for origin in ("SFO", "LAX", "JFK")])


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_in_the_documents_runs_up_to_spark(block: Block, folder: Path, runs: list[JobSpec]) -> None:
    output_of_two_epochs(folder / "run" / "out")
    if "_state(" in block.text:
        state_of_an_epoch(folder / "run")
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)
    jobs = [value for value in names.values() if isinstance(value, Job)]
    assert [job.spec for job in jobs] == runs, "each job in a snippet is run, and is whole"


def test_the_first_job_is_the_same_in_yaml_and_in_python(folder: Path, runs: list[JobSpec]) -> None:
    (folder / "job.yaml").write_text(the_block("yaml", "README.md").text, encoding="utf-8")
    exec(compile(the_block("python", "README.md").text, "README.md", "exec"), {})
    assert runs == [load_job("job.yaml").spec]


def test_the_observer_in_the_documents_tells_epochs_and_the_flip(runs: list[JobSpec]) -> None:
    (block,) = (block for block in blocks("python") if "observers=" in block.text)
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)
    observers = Observers([names["watch"]])
    for event in (PhaseBegan("starting"), epoch_committed(0, records=500), Flipped(at_ms=0, after_epoch=Epoch(0))):
        observers(event)
    assert names["seen"] == ["epoch 0: 500 records", "live from here on"]


def epoch_committed(epoch: int, *, records: int) -> EpochCommitted:
    """The event of an epoch whose other figures do not matter."""
    figures = {field.name: 0 for field in fields(EpochCommitted)}
    values: dict[str, Any] = {**figures, "epoch": Epoch(epoch), "records": records, "profile": {}}
    return EpochCommitted(**values)


# --- reading an output -----------------------------------------------------------------------------------------------


def test_queries_in_the_documents_give_the_current_table_before_and_after_a_compaction(folder: Path) -> None:
    output_of_two_epochs(folder / "run" / "out")
    expected = [{"origin": "LAX", "flights": 1}, {"origin": "SFO", "flights": 5}]
    block = the_block("python", "docs/operations.md")
    for is_compacted in (False, True):
        if is_compacted:
            task = SinkTask("run/out", "parquet")
            compact_output(task, before=Epoch(2), target_bytes=1 << 30, newest_only=False)
            assert [path.name[:9] for path in (folder / "run" / "out").glob("*.parquet")] == ["compacted"]
        names: dict[str, Any] = {}
        exec(compile(block.text, str(block), "exec"), names)
        assert names["flights"].to_pylist() == expected
        assert names["by_pandas"].to_dict("records") == expected
        for found in (names["by_duckdb"], names["large"]):
            assert found.fetchall() == [tuple(row.values()) for row in expected]


# --- tables ----------------------------------------------------------------------------------------------------------


def settings(model: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """(dotted path, field) of every setting that holds a value; `<name>` stands for a name that the user makes up."""
    for name, field in model.fields_in_order().items():
        path = prefix + key_of(name)
        if path == "steps":
            for step in STEP_KINDS.values():
                yield from settings(step, "steps[].")
            continue
        inner = section_of(field.annotation)
        if (
            (prefix.startswith(("steps[].", "outputs.")) or prefix.endswith("dead-letter."))
            and issubclass(model, SinkSpec)
            and name not in {"format", "path", "schema_ddl"}
            and not (prefix.startswith("outputs.") and name == "from_")
        ):
            continue  # the reference says of them: a sink as that of the job
        if prefix == "sink." and name == "from_":
            continue  # it is for entries of `outputs`
        if prefix == "dimensions.<name>." and name not in {"format", *model.dimension_settings}:  # type: ignore[attr-defined]
            continue  # it has no effect there
        if inner is None:
            yield path, field
        else:
            many = ".<name>" if get_origin(field.annotation) is Mapping else ""
            yield from settings(inner, f"{path}{many}.")


def section_of(annotation: Any) -> type[Section] | None:
    """The section of a setting that is one; of a source or sink, that for files: others have pages of their own."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    role = role_of(annotation)
    if role is not None:
        return role.kinds["files"]
    return next((found for inner in get_args(annotation) if (found := section_of(inner)) is not None), None)


def default_of(path: str, field: FieldInfo) -> str:
    """A default as the reference writes it; steps have none, since what they need depends on their kind."""
    value = field.default
    if path.startswith("steps[].") and not path.endswith(".name"):
        return "-"
    if value is PydanticUndefined:
        return "required"
    if path == "spark":
        return '{master: "local[*]"}'
    if path == "sources.<name>.watermark.out-of-orderness":
        return "0"
    kind = str(field.metadata)
    if isinstance(value, int) and "format_bytes" in kind:
        return format_bytes(value)
    if isinstance(value, int) and ("format_duration_ms" in kind or "_duration_or_none" in kind):
        return format_duration_ms(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_reference_lists_every_setting_once_with_its_default() -> None:
    rows = rows_of_tables(document("docs/job-file.md"), "setting")
    named = [(setting, row[1].strip("`")) for row in rows for setting in code_in(row[0])]
    documented = dict(named)
    assert len(documented) == len(named), "a setting stands in two rows"
    actual = {path: default_of(path, field) for path, field in settings(JobSpec)}
    for path, default in actual.items():
        assert path in documented, f"docs/job-file.md does not list {path}"
        if default != "None":  # what takes the place of a default that is not given, stands there in words
            assert documented[path] == default, path
    rest = {path: default for path, default in documented.items() if path not in actual}
    assert rest == _DEFAULTS, "docs/job-file.md lists settings that are not there, or other defaults for Spark"


def test_the_reference_lists_every_argument_of_the_python_api() -> None:
    text = document("docs/job-file.md")
    for argument in JobArguments.__annotations__:
        assert f"`{argument}=`" in text, argument
    for argument in WindowArguments.__annotations__:
        assert f"`{argument}=`" in text, argument
    for owner in (Source, Sink):
        for call in ("parquet", "json", "csv" if owner is Source else "console"):
            assert hasattr(owner, call)
            assert f"{owner.__name__}.{call}(" in text, call


def test_the_aggregates_are_listed_with_their_other_spellings() -> None:
    documented: dict[str, set[str]] = {}
    for row in rows_of_tables(document("docs/aggregates.md"), "function"):
        for call in code_in(row[0]):
            documented.setdefault(call.partition("(")[0], set()).update(code_in(row[1]))
    assert documented == {name: set(others) for name, others in AGGREGATE_FUNCTIONS.items()}


def test_every_kind_of_error_is_explained_with_its_exit_code() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "MixedmodeError"]
    rows = {code_in(row[0])[0]: int(row[1]) for row in rows_of_tables(document("docs/operations.md"), "kind")}
    assert rows == {kind.__name__: kind.exit_code for kind in kinds}
    assert all(issubclass(kind, MixedmodeError) for kind in kinds)


def test_commands_and_options_in_the_documents_exist() -> None:
    import typer.main

    from mixedmode.cli.app import app

    commands = getattr(typer.main.get_command(app), "commands", {})
    groups = {name: getattr(command, "commands", {}) for name, command in commands.items()}
    known = {(name, part): groups[name].get(part, commands[name]) for name in commands for part in groups[name] or [""]}
    listed = set()
    for path in DOCUMENTS:
        for call in re.findall(r"`mixedmode ([a-z][^`]*)`", path.read_text(encoding="utf-8")):
            name, *words = call.replace("\\|", " ").split()
            assert name in commands, f"{path.name}: mixedmode {call}"
            part = words[0] if groups[name] and words else ""
            if groups[name] and not words:
                continue
            assert (name, part) in known, f"{path.name}: mixedmode {call}"
            listed.add((name, part))
            options = {option for parameter in known[name, part].params for option in parameter.opts}
            for word in words:
                option = word.strip("[].,").partition("=")[0]
                assert not option.startswith("--") or option in options, f"{path.name}: mixedmode {call}"
    assert listed == set(known), "a command is not documented"


def test_every_command_of_a_job_is_in_the_table_of_commands() -> None:
    import typer.main

    from mixedmode.cli.app import app

    commands = set(getattr(typer.main.get_command(app), "commands", {}))
    calls = {call for row in rows_of_tables(document("docs/operations.md"), "command") for call in code_in(row[0])}
    listed = {call.split()[1] for call in calls if call.startswith("mixedmode ")}
    assert listed == commands - {"bench", "services"}, "those two are in benchmarks.md and kafka.md"


def test_the_fields_of_a_manifest_are_listed() -> None:
    listed = [name for row in rows_of_tables(document("docs/operations.md"), "field") for name in code_in(row[0])]
    assert sorted(listed) == sorted(field.name for field in fields(Manifest))


def test_crash_points_are_listed() -> None:
    text = document("ARCHITECTURE.md")
    for point in get_args(CrashPoint):
        assert f"`{point}`" in text, point


def test_glossary_is_in_order_and_has_each_word_once() -> None:
    words = [row[0].lower() for row in rows_of_tables(document("docs/glossary.md"), "word")]
    assert words == sorted(set(words))


def test_no_document_quotes_a_rate_or_a_ratio() -> None:
    """A figure belongs to the machine that printed it. Sections of results are those that test_results.py checks."""
    figure = re.compile(r"\b\d[\d,.]*\s?[MK]?\s?(?:events|records|rows|pairs|keys)/s\b|\b\d+(?:\.\d+)?x\b")
    results = re.compile(r"^## Results$.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    for path in DOCUMENTS:
        found = figure.findall(results.sub("", path.read_text(encoding="utf-8")))
        assert not found, f"{path.name}: {found}"
