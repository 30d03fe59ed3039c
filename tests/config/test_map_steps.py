"""Steps with map: what belongs to one, and where in a job it may stand."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import JobSpec, MapStep, load_job
from mixedmode.errors import InvalidJobError
from tests.config.refusals import SMALLEST_JOB, messages

SEVERAL_SOURCES = (
    "steps[0]: this step reads one input, and the job has several sources. Add `from` with one source, or with several "
    "to read their rows together. sources=a, b"
)
MAP = {"map": "a.b:C", "output": "id long"}
KEYED = {"key-by": "id", "aggregate": {"n": "count(*)"}}
PROCESS = {"key-by": "id", "process": "a.b:C", "output": "id long"}
ANOTHER_KIND = (
    "steps[0].{key} belongs to another kind of step: a step has sql, or map, or join, or co-process, or co-group, or "
    "key-by and one of aggregate, process, async-map, top, deduplicate, over, apply-changes. Make it a step of its own."
)
MISSPELT = (
    "steps[0].mapp is not a known key. Did you mean map? Known keys here: "
    "name, from, map, folder, args, output, parallelism."
)
TAKEN = "steps[0].name: a source has this name already (case does not count). Choose another. found=Flights"
AFTER_A_KEYED_ONE = "steps[1].map must come before the first keyed step. Move it, or use sql."


def job(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**SMALLEST_JOB, "steps": list(steps), **changes}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"map": "a.b:C"},
            ["output is missing: columns of the result as Spark DDL, such as customer string, orders long. Add it."],
        ),
        ({**MAP, "map": "a.b.C"}, ["map: this does not name a class. Write it as package.module:Class. found=a.b.C"]),
        ({**MAP, "parallelism": 0}, ["parallelism must be at least 1. found=0"]),
        (
            {**MAP, "args": {"a": {1: 2}}},
            [
                (
                    "args.a is nothing that a job file can hold. Make it of text, whole or finite numbers, true, "
                    "false, lists and sections with names. found={1: 2}"
                )
            ],
        ),
    ],
)
def test_what_a_map_step_cannot_be_is_refused(values: dict[str, Any], expected: list[str]) -> None:
    assert messages(MapStep, values) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (job(KEYED, MAP), [AFTER_A_KEYED_ONE]),
        (job(PROCESS, MAP), [AFTER_A_KEYED_ONE]),
        (job({**MAP, "key-by": "k"}), [ANOTHER_KIND.format(key="key-by")]),
        (job({**MAP, "on-error": "skip"}), [ANOTHER_KIND.format(key="on-error")]),
        (job({"mapp": "a:B", "output": "id long"}), [MISSPELT]),
        (job({**MAP, "name": "Flights"}), [TAKEN]),
        (
            job(MAP, sources={name: {"format": "parquet", "path": f"/{name}"} for name in ("a", "b")}),
            [SEVERAL_SOURCES],
        ),
    ],
)
def test_a_job_with_such_a_step_in_a_wrong_place_is_refused(given: dict[str, Any], expected: list[str]) -> None:
    assert messages(JobSpec, given) == expected


@pytest.mark.parametrize(
    "steps",
    [[MAP], [MAP, MAP], [{"sql": "SELECT 1"}, MAP, {"sql": "SELECT 1"}, MAP, KEYED], [MAP, PROCESS, KEYED]],
)
def test_several_may_stand_before_the_first_keyed_step(steps: list[dict[str, Any]]) -> None:
    spec = JobSpec.model_validate(job(*steps))
    assert JobSpec.model_validate(spec.as_document()) == spec


def test_map_steps_and_keyed_steps_are_numbered_apart() -> None:
    """A map step that is added does not rename the steps whose state is stored."""
    steps: list[dict[str, Any]] = [
        {**MAP, "parallelism": 3},
        {**MAP, "name": "numbering"},
        MAP,
        KEYED,
        {**KEYED, "parallelism": 2},
    ]
    expected = {"map-1": 3, "numbering": None, "map-3": None, "aggregate-1": None, "aggregate-2": 2}
    assert JobSpec.model_validate(job(*steps)).step_parallelism == expected


def test_a_map_step_may_have_more_subtasks_than_there_are_key_groups() -> None:
    given = job({**MAP, "parallelism": 9}, pipeline={"max-parallelism": 4})
    assert JobSpec.model_validate(given).step_parallelism == {"map-1": 9}


def test_the_class_is_imported_from_the_folder_of_the_job_file(tmp_path: Path) -> None:
    text = """\
name: numbered
execution.checkpointing.dir: checkpoints
sources: {lines: {format: json, path: in, schema: text string}}
steps:
  - map: numbering:Numbering
    args: {from: 1}
    output: "id long, text string"
  - {map: "other:Other", folder: lib, output: id long}
sink: {format: console}
"""
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    first, second = load_job(tmp_path / "job.yaml").spec.steps
    assert first == MapStep(
        map="numbering:Numbering", args={"from": 1}, output="id long, text string", folder=str(tmp_path)
    )
    assert isinstance(second, MapStep)
    assert second.folder == str(tmp_path / "lib")


def test_a_fault_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: numbered\nexecution.checkpointing.dir: c\nsources: {t: {format: parquet, path: in}}\n"
        "steps:\n  - map: numbering.Numbering\n    output: id long\nsink: {format: console}\n",
        encoding="utf-8",
    )
    with pytest.raises(InvalidJobError, match=r"job\.yaml:5: steps\[0\]\.map: this does not name a class"):
        load_job(tmp_path / "job.yaml")
