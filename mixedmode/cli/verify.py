"""`mixedmode verify JOB`: what the tables of a job and a replay of its input say differently."""

from collections.abc import Iterator
from typing import assert_never

from mixedmode.counts import counted
from mixedmode.driver.comparison import Difference, Differences
from mixedmode.driver.verification import Verified

_WHY = (
    "Reasons that are no defect: records that came too late live are not late in a replay; functions that use the "
    "clock, chance or the order of arrival; input files and dimensions that were changed; files in the output that "
    "others wrote; windows that a query of Spark had emitted before its state was imported."
)


def verification_text(verified: Verified) -> str:
    """Return the result as text: one line for each table that agrees, else its first differences."""
    of_what = f"epoch {verified.epoch}, {counted(verified.files, 'input file')}"
    lines = [line for name, found in verified.differences.items() for line in _table_lines(name, found, of_what)]
    lines += [f"{name}: not compared, as it is no folder of files. output={at}" for name, at in verified.others.items()]
    return "\n".join([*lines, *([] if verified.are_equal else [_WHY])])


def _table_lines(name: str, found: Differences, of_what: str) -> Iterator[str]:
    """Yield the lines about one table.  name: that of the output; "" for the only one."""
    table = f"{name}: the table" if name else "the table"
    of_what = f"{of_what}, {counted(found.compared, 'key')}"
    if found.are_none:
        yield f"{table} agrees with a replay of its input: {of_what}"
        return
    counts = f"{found.missing:,} missing, {found.unexpected:,} unexpected, {found.different:,} different"
    yield f"{table} differs from a replay of its input: {counts} ({of_what})"
    yield from map(_line, found.first)
    hidden = found.missing + found.unexpected + found.different - len(found.first)
    if hidden:
        yield f"  and {hidden:,} more"


def _line(one: Difference) -> str:
    key = ", ".join(f"{name}={value}" for name, value in one.key.items())
    match one.kind:
        case "missing":
            return f"  {key}: not in the table; the replay has {_rest(one, one.expected)}"
        case "unexpected":
            return f"  {key}: only in the table: {_rest(one, one.found)}"
        case "different":
            return f"  {key}: the table has {_rest(one, one.found)}; the replay has {_rest(one, one.expected)}"
        case _:
            assert_never(one.kind)


def _rest(one: Difference, row: dict[str, object] | None) -> str:
    """Return the columns of a row other than the key; of a difference, only those that differ."""
    both = one.expected is not None and one.found is not None
    found = {
        name: value
        for name, value in (row or {}).items()
        if name not in one.key and not (both and repr((one.expected or {})[name]) == repr((one.found or {})[name]))
    }
    return ", ".join(f"{name}={value}" for name, value in found.items()) or "this row"
