"""Compare a contestant's table with that of the workload's SQL, run by DuckDB on the same data.

A benchmark of wrong answers measures nothing, so one ends it, and says which rows differ.

Rows are told apart by the workload's key. Without one they are compared as a bag: rows that have no equal are put in
order on both sides, by all but their doubles first, and each is compared with its neighbour.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import duckdb

from mixedmode.counts import counted
from mixedmode.errors import InternalError
from mixedmode_bench.data import Data
from mixedmode_bench.tables import quoted, relation_of
from mixedmode_bench.workload import Workload

RELATIVE_MAX = 1e-9  # in any order of addition, sums of these sizes agree to many more digits
ROWS_SHOWN = 5
MEMORY_LIMIT = "4GB"

_FLOATS = ("FLOAT", "DOUBLE")


class Answers:
    """The answer of one workload over its data, computed once. `scratch` is for what does not fit into memory."""

    def __init__(self, workload: Workload, data: Data, scratch: Path) -> None:
        self._workload = workload
        self._database = duckdb.connect()
        self._run(f"SET memory_limit = '{MEMORY_LIMIT}'")
        self._run(f"SET temp_directory = {quoted(scratch / 'answers')}")
        self._run("SET TimeZone = 'UTC'")
        tables = sorted(path for path in data.tables.iterdir() if path.is_dir())
        for table in tables:
            more = data.waiting if table == tables[0] else ()
            self._run(f"CREATE VIEW {_name(table.name)} AS FROM {relation_of(table, more)}")
        self._run(f"CREATE TABLE expected AS {self._as_compared(f'({workload.answer})')}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._database.close()

    def check(self, contestant: str, answer: Path, *, may_lack: bool) -> None:
        """Compare a Parquet file.  Raises InternalError if it is not the answer.

        may_lack: rows may be missing, if the workload allows it of them.
        """
        self._run(f"CREATE OR REPLACE TABLE found AS {self._as_compared(f'read_parquet({quoted(answer)})')}")
        expected, found = self._columns("expected"), self._columns("found")
        if list(expected) != list(found):
            raise self._wrong(contestant, f"its columns are {', '.join(found)}, not {', '.join(expected)}")
        if self._workload.key:
            self._check_keys(contestant)
            differing = self._by_key(_floats(expected, found))
        else:
            differing = self._as_bag(_floats(expected, found))
        self._run(f"CREATE OR REPLACE TEMP TABLE differing AS {differing}")
        if may_lack:
            is_excused = f"wrong = 'missing' AND coalesce(({self._workload.may_lack}), false)"
            self._run(f"DELETE FROM differing WHERE {is_excused}")
        count = self._value("SELECT count(*) FROM differing")
        if count:
            total = self._value("SELECT count(*) FROM expected")
            rows = "\n".join(self._shown(f"FROM differing LIMIT {ROWS_SHOWN}"))
            others = counted(count, "row")
            raise self._wrong(contestant, f"{others} other than the {total:,} of the answer, such as\n{rows}")

    def _check_keys(self, contestant: str) -> None:
        key = _names(self._workload.key)
        twice = f"SELECT {key}, count(*) AS times FROM found GROUP BY {key} HAVING count(*) > 1"
        if self._value(f"SELECT count(*) FROM ({twice})"):
            rows = "\n".join(self._shown(f"FROM ({twice}) LIMIT {ROWS_SHOWN}"))
            raise self._wrong(contestant, f"it has more than one row for the same key, such as\n{rows}")

    def _by_key(self, floats: frozenset[str]) -> str:
        """The rows that differ: those of the answer, or, if they are too many, of the contestant."""
        key = self._workload.key
        columns = list(self._columns("expected"))
        differs = " OR ".join(_differs(c, is_float=c in floats) for c in columns if c not in key) or "false"
        on = " AND ".join(f"e.{_name(c)} IS NOT DISTINCT FROM f.{_name(c)}" for c in key)
        return self._joined("expected", "found", on, differs, [c for c in columns if c not in key])

    def _as_bag(self, floats: frozenset[str]) -> str:
        columns = list(self._columns("expected"))
        rest = [c for c in columns if c not in floats]
        numbered = f"row_number() OVER (PARTITION BY {_names(rest) or '1'} ORDER BY {_names(columns)}) AS number_"
        for left, right in (("expected", "found"), ("found", "expected")):
            table = f"CREATE OR REPLACE TEMP TABLE {left}_alone AS"
            self._run(f"{table} SELECT *, {numbered} FROM (FROM {left} EXCEPT ALL FROM {right})")
        on = " AND ".join(f"e.{_name(c)} IS NOT DISTINCT FROM f.{_name(c)}" for c in [*rest, "number_"])
        differs = " OR ".join(_differs(c, is_float=True) for c in columns if c in floats) or "false"
        return self._joined("expected_alone", "found_alone", on, differs, [c for c in columns if c in floats])

    def _joined(self, expected: str, found: str, on: str, differs: str, compared: Sequence[str]) -> str:
        """A row for each difference: what is wrong, the answer's columns, and what was found of those compared."""
        columns = list(self._columns("expected"))
        kept = ", ".join(
            f"e.{_name(c)} AS {_name(c)}" if c in compared else f"coalesce(e.{_name(c)}, f.{_name(c)}) AS {_name(c)}"
            for c in columns
        )
        others = "".join(f", f.{_name(c)} AS {_name(f'found {c}')}" for c in compared)
        e, f = f"(SELECT *, true AS here_ FROM {expected})", f"(SELECT *, true AS here_ FROM {found})"
        wrong = "CASE WHEN f.here_ IS NULL THEN 'missing' WHEN e.here_ IS NULL THEN 'too many' ELSE 'another' END"
        return (
            f"SELECT {wrong} AS wrong, {kept}{others} FROM {e} AS e FULL JOIN {f} AS f ON {on} "
            f"WHERE e.here_ IS NULL OR f.here_ IS NULL OR {differs}"
        )

    def _as_compared(self, relation: str) -> str:
        """All its columns, each moment as a TIMESTAMP in UTC, whatever its unit and zone."""
        types = self._run(f"DESCRIBE FROM {relation}").fetchall()
        columns = [
            f"CAST({_name(name)} AS TIMESTAMP) AS {_name(name)}" if str(type_).startswith("TIMESTAMP") else _name(name)
            for name, type_, *_ in types
        ]
        return f"SELECT {', '.join(columns)} FROM {relation}"

    def _columns(self, table: str) -> dict[str, str]:
        return {str(name): str(type_) for name, type_, *_ in self._run(f"DESCRIBE {table}").fetchall()}

    def _shown(self, query: str) -> Iterable[str]:
        rows = self._run(query)
        names = [column[0] for column in rows.description or ()]
        for row in rows.fetchall():
            yield "  " + ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=True))

    def _value(self, query: str) -> int:
        row = self._run(query).fetchone()
        assert row is not None, query
        return int(row[0])

    def _run(self, query: str) -> duckdb.DuckDBPyConnection:
        return self._database.execute(query)

    def _wrong(self, contestant: str, what: str) -> InternalError:
        name = self._workload.name
        msg = (
            f"a wrong answer: {what}\nThe benchmark ends here, since figures of wrong answers mean nothing. If the "
            f"contestant is one of ours, report it. workload={name}, contestant={contestant}"
        )
        return InternalError(msg)


def _floats(expected: dict[str, str], found: dict[str, str]) -> frozenset[str]:
    return frozenset(name for name in expected if expected[name] in _FLOATS or found[name] in _FLOATS)


def _differs(column: str, *, is_float: bool) -> str:
    e, f = f"e.{_name(column)}", f"f.{_name(column)}"
    if not is_float:
        return f"{e} IS DISTINCT FROM {f}"
    is_finite = f"isfinite(CAST({e} AS DOUBLE)) AND isfinite(CAST({f} AS DOUBLE))"  # NaN and infinity are near nothing
    near = f"{is_finite} AND abs({e} - {f}) <= {RELATIVE_MAX} * greatest(abs({e}), abs({f}))"
    return f"({e} IS DISTINCT FROM {f} AND NOT coalesce({near}, false))"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(_name(column) for column in columns)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
