"""The public front: what a user imports, and the example that is the first thing to be read."""

import inspect
import textwrap
from typing import Any

import pyarrow as pa

import mixedmode.process
from mixedmode.process import MAX_WATERMARK, KeyedProcessFunction, ValueState
from tests.operators.process.epochs import Epochs, operator_of

HOUR = 3_600_000_000


def example() -> dict[str, Any]:
    """The names that the example in the docstring defines."""
    doc = inspect.getdoc(mixedmode.process) or ""
    code = doc[doc.index("    from mixedmode.process") : doc.index("In a job file")]
    names: dict[str, Any] = {"__name__": "example"}
    exec(textwrap.dedent(code), names)
    return names


def test_the_example_gives_one_answer_in_backlog_and_live() -> None:
    output = {"user": pa.string(), "hour": pa.timestamp("us", tz="UTC"), "clicks": pa.int64(), "page": pa.string()}
    operator = operator_of(example()["Clicks"], output, value_type=pa.string())
    fields = (*operator.record_fields[:2], pa.field("page", pa.string()))
    operator = type(operator)(**{**_fields(operator), "record_fields": fields})
    clicks = [
        ("ann", 1, "home"),
        ("bob", 2, "home"),
        ("ann", HOUR - 1, "shop"),
        ("ann", HOUR, "cart"),
        ("ann", 2 * HOUR + 5, "home"),
    ]
    counts = []
    for borders in ([5], [1, 3, 5], [4, 5]):
        epochs, rows, start = Epochs(operator), list[Any](), 0
        for end in borders:
            rows += epochs.run(clicks[start:end], watermark=clicks[end - 1][1], is_backlog=start == 0).rows
            start = end
        rows += epochs.run(watermark=MAX_WATERMARK).rows
        counts.append(sorted((row["user"], row["hour"].timestamp() // 3600, row["clicks"]) for row in rows))
        assert {key[2] for key in epochs.entries} == {0}, "no timer and no map entry is left"
    assert counts == [[("ann", 1, 2), ("ann", 2, 1), ("ann", 3, 1), ("bob", 1, 1)]] * 3


def _fields(operator: Any) -> dict[str, Any]:
    return {name: getattr(operator, name) for name in operator.__dataclass_fields__}


def test_every_public_name_is_there_and_documented() -> None:
    for name in mixedmode.process.__all__:
        found = getattr(mixedmode.process, name)
        assert not isinstance(found, type) or found.__doc__, name


def test_type_checkers_see_what_a_state_holds() -> None:
    class Function(KeyedProcessFunction):
        with_default = ValueState(int, default=0)
        without = ValueState(str)

        def read(self) -> tuple[int, str | None]:
            return self.with_default.value, self.without.value

    assert Function.with_default.name == "with_default"
