"""The rows of a table from the records of its changes, in plain Python."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.operators.oracle import order_of

Row = Mapping[str, Any]


def current(records: Sequence[Row], row: Sequence[str]) -> Sequence[Row]:
    """Return the rows of the keys `k` whose last record does not delete.  row: the other columns."""
    found = []
    for key, own in _by_key(records, row):
        last = own[-1]
        if not last["gone"]:
            found.append({"k": key, **{name: last[name] for name in row}})
    return found


def history(records: Sequence[Row], row: Sequence[str], tracked: Sequence[str]) -> Sequence[Row]:
    """Return all versions of all rows."""
    found: list[dict[str, Any]] = []
    for key, own in _by_key(records, row):
        open_version: dict[str, Any] | None = None
        for record in own:
            if not record["gone"] and open_version is not None and _same(open_version, record, tracked):
                open_version |= {name: record[name] for name in row}
                continue
            if open_version is not None:
                open_version["__END_AT"] = record["seq"]
            open_version = None
            if not record["gone"]:
                open_version = {"k": key, "__START_AT": record["seq"], **{name: record[name] for name in row}}
                open_version["__END_AT"] = None
                found.append(open_version)
    return found


def _same(one: Row, other: Row, columns: Sequence[str]) -> bool:
    return all(order_of(_unsigned(one[name])) == order_of(_unsigned(other[name])) for name in columns)


def _unsigned(value: Any) -> Any:
    """-0.0 is 0.0, as in a comparison of Spark."""
    return 0.0 if value == 0 and isinstance(value, float) else value


def _by_key(records: Sequence[Row], row: Sequence[str]) -> Iterator[tuple[Any, list[Row]]]:
    """Yield each key and its records that count: of one sequence, one that deletes, else the greatest row."""
    keys: dict[Any, dict[Any, Row]] = {}
    for record in records:
        of_key = keys.setdefault(record["k"], {})
        other = of_key.get(record["seq"])
        if other is None or _rank(record, row) > _rank(other, row):
            of_key[record["seq"]] = record
    for key, of_key in keys.items():
        yield key, [of_key[sequence] for sequence in sorted(of_key)]


def _rank(record: Row, row: Sequence[str]) -> tuple[Any, ...]:
    return (bool(record["gone"]), record["gone"] is not None, *(order_of(record[name]) for name in row))
