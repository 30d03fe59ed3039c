"""The tables of docs/testing.md, held against the harness; its examples run with those of all documents."""

import inspect

import pytest

from mixedmode.config import format_bytes
from mixedmode.job import Job, Source
from mixedmode.testing import AggregateHarness, FunctionHarness, Harness, HarnessArguments, JobOutputs, run_graph
from mixedmode.testing.settings import Settings
from tests.docs.test_snippets import code_in, document, rows_of_tables

TEXT = document("docs/testing.md")


def named(heading: str) -> set[str]:
    """Return the names that the tables with this heading list."""
    cells = [name for row in rows_of_tables(TEXT, heading) for name in code_in(row[0])]
    return {cell.partition("(")[0].partition("=")[0] for cell in cells}


def test_every_method_and_property_of_a_harness_is_listed() -> None:
    public = {name for name in vars(Harness) if not name.startswith("_")}
    listed = named("call") | named("result")
    assert listed <= public
    assert public - listed == {"is_backlog"}, "which a test has set itself"


def test_every_argument_of_a_harness_is_listed_with_its_default() -> None:
    listed: dict[str, str] = {}
    for arguments, default, _ in rows_of_tables(TEXT, "argument of every harness"):
        listed |= zip(code_in(arguments), code_in(default) or [default], strict=True)
    assert set(listed) == set(HarnessArguments.__annotations__)
    defaults = Settings.of({}, where="Harness")
    assert listed.pop("out_of_orderness") == "-"
    assert listed.pop("sort_memory") == format_bytes(defaults.sort_memory_bytes)
    assert listed == {name: str(getattr(defaults, name)) for name in listed}


def test_every_argument_and_result_of_run_graph_is_listed() -> None:
    assert named("argument of `run_graph`") == set(inspect.signature(run_graph).parameters)
    public = {name for name in vars(JobOutputs) if not name.startswith("_")}
    outputs = run_graph(
        Job("j", sources={"t": Source.parquet("in", schema="k string")}, mode="batch")
        .key_by("k")
        .aggregate(n="count(*)"),
        {},
    )
    public |= {name for name in vars(outputs) if not name.startswith("_")}
    assert named("result of `run_graph`") - {'outputs["name"]'} == public


def test_every_argument_of_a_function_harness_is_listed_and_those_of_an_aggregate_are_mentioned() -> None:
    own = set(inspect.signature(FunctionHarness).parameters) - {"settings"}
    assert own <= named("argument") | {"args"}
    for name in set(inspect.signature(AggregateHarness).parameters) - {"settings"}:
        assert f"`{name}`" in TEXT or f"    {name}=" in TEXT, name


def test_a_function_that_is_right_live_only_fails_the_comparison_of_the_document() -> None:
    right = next(text for text in TEXT.split("```python\n") if "class PerMinute" in text).partition("```")[0]
    exec(compile(right, "docs/testing.md", "exec"), {})
    wrong = right.replace("self.sums[end] = self.sums.get(end, 0)", "self.sums[0] = self.sums.get(0, 0)")
    wrong = wrong.replace("self.sums.pop(timestamp)", "self.sums.pop(0, 0)")
    names: dict[str, object] = {}
    with pytest.raises(AssertionError):
        exec(compile(wrong, "docs/testing.md", "exec"), names)
    assert "batch" in names, "all three ways have run"
