"""Hypothesis strategies for whole runs: rows with awkward keys and values, cut into files, with a flip somewhere.

Rows are small and shapes are extreme: one giant key, one key, all keys distinct, keys of several columns of any type,
NULLs anywhere, files and histories without a row. Sizes are for the sorter's own tests; here every case is a Spark run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mixedmode.job import Source
from tests.differential.oracle import Call, Where
from tests.differential.stories import Mode, ParquetPiece, Story

Rows = list[dict[str, Any]]

_NAN = float("nan")
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["", "\0", "\0\0", "a", "a\0", "ä", "😀"])
_TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - hypothesis wants them bare


def _whole(bits: int) -> st.SearchStrategy[int]:
    limit = 2 ** (bits - 1)
    return st.integers(-limit, limit - 1) | st.sampled_from([-limit, -1, 0, 1, limit - 1])


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**digits - 1
    unscaled = st.integers(-limit, limit) | st.sampled_from([-limit, -1, 0, 1, limit])
    return unscaled.map(lambda number: Decimal(number).scaleb(-scale, None) if digits <= 28 else _wide(number, scale))


def _wide(number: int, scale: int) -> Decimal:
    sign, digits = number < 0, tuple(map(int, str(abs(number))))
    return Decimal((int(sign), digits, -scale))  # no context, so no rounding to 28 digits


@dataclass(frozen=True)
class Kind:
    """A type of key column: its name in Spark, its Arrow type, and its values without NULL."""

    sql: str
    arrow: pa.DataType
    values: st.SearchStrategy[Any]


KINDS = (
    Kind("tinyint", pa.int8(), _whole(8)),
    Kind("smallint", pa.int16(), _whole(16)),
    Kind("int", pa.int32(), _whole(32)),
    Kind("bigint", pa.int64(), _whole(64)),
    Kind("string", pa.string(), _TEXTS),
    Kind("boolean", pa.bool_(), st.booleans()),
    Kind("date", pa.date32(), st.dates(date(1900, 1, 1), date(2200, 1, 1))),
    Kind("timestamp", pa.timestamp("us", "UTC"), _TIMES.map(lambda time: time.replace(tzinfo=UTC))),
    Kind("timestamp_ntz", pa.timestamp("us"), _TIMES),
    Kind("decimal(9,2)", pa.decimal128(9, 2), _decimals(9, 2)),
    Kind("decimal(38,10)", pa.decimal128(38, 10), _decimals(38, 10)),
    Kind("binary", pa.binary(), st.binary(max_size=4) | st.sampled_from([b"", b"\0", b"\0\xff", b"\xff"])),
    Kind("double", pa.float64(), st.floats() | st.sampled_from([-0.0, 0.0, _NAN, float("inf"), -float("inf")])),
    Kind("float", pa.float32(), st.floats(width=32) | st.sampled_from([-0.0, 0.0, _NAN])),
)

#: the columns beside the key: name -> (Arrow type, values without NULL). Sums stay within 64 bits: what does not fit
#: is refused, which tests/analysis/test_refusals.py shows
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-(2**56), 2**56) | st.integers(-3, 3)),
    "n": (pa.int32(), _whole(32)),
    "d": (pa.float64(), st.floats(-1e6, 1e6) | st.sampled_from([-0.0, 0.0, 0.5, _NAN, float("inf"), -float("inf")])),
    "m": (pa.decimal128(10, 2), _decimals(10, 2)),
    "w": (pa.decimal128(30, 5), _decimals(30, 5)),
    "s": (pa.string(), _TEXTS),
    "b": (pa.bool_(), st.booleans()),
    "x": (pa.binary(), st.binary(max_size=3)),
    "u": (pa.timestamp("us", "UTC"), _TIMES.map(lambda time: time.replace(tzinfo=UTC))),
}
EVENT_TIME = pa.timestamp("us", "UTC")
_EVENT_TIMES = st.integers(0, 5).map(
    lambda minute: datetime(2001, 1, 1, 0, minute, tzinfo=UTC)
)  # so that some are equal

#: name -> (as a job says it, as the oracle does)
AGGREGATES: dict[str, tuple[str, Call]] = {
    "all": ("count(*)", Call("count")),
    **{f"count_{c}": (f"count({c})", Call("count", c)) for c in VALUES},
    **{f"sum_{c}": (f"sum({c})", Call("sum", c)) for c in ("i", "n", "d", "m", "w")},
    **{f"avg_{c}": (f"avg({c})", Call("avg", c)) for c in ("i", "n", "d")},
    "avg_m": ("avg(m)", Call("avg", "m", scale=6)),
    "avg_w": ("avg(w)", Call("avg", "w", scale=9)),
    **{f"{f}_{c}": (f"{f}({c})", Call(f, c)) for f in ("min", "max", "first", "last") for c in VALUES},
    **{f"{f}_{c}": (f"{f}({c})", Call(f, c)) for f in ("var_pop", "var_samp", "stddev_pop") for c in ("d", "n")},
    "stddev_samp_m": ("stddev(d)", Call("stddev_samp", "d")),
    "every_b": ("bool_and(b)", Call("bool_and", "b")),
    "some_b": ("bool_or(b)", Call("bool_or", "b")),
    **{f"distinct_{c}": (f"count(distinct {c})", Call("count_distinct", c)) for c in ("n", "d", "w", "s", "u")},
    **{f"distinct_sum_{c}": (f"sum(distinct {c})", Call("sum_distinct", c)) for c in ("n", "m")},
    "disc_m": ("percentile_disc(m, 0.3)", Call("percentile_disc", "m", number=0.3)),
    **{f"mode_{c}": (f"mode({c})", Call("mode", c)) for c in "ndsw"},
    "mode_descending_i": ("mode() WITHIN GROUP (ORDER BY i DESC)", Call("mode_descending", "i")),
    "distinct_mean_m": ("avg(distinct m)", Call("avg_distinct", "m", scale=6)),
    **{f"about_{c}": (f"approx_count_distinct({c})", Call("approx_count_distinct", c)) for c in ("i", "d", "s")},
    **{f"half_{c}": (f"approx_percentile({c}, 0.5)", Call("approx_percentile", c, number=0.5)) for c in "indmu"},
    **{f"median_{c}": (f"median({c})", Call("percentile", c, number=0.5)) for c in "indmw"},
    "ninth_n": ("percentile(n, 0.9)", Call("percentile", "n", number=0.9)),
    **{f"{f}_{c}": (f"{f}({c})", Call(f, c)) for f in ("bit_and", "bit_or", "bit_xor") for c in "in"},
    "true_b": ("count_if(b)", Call("count_if", "b")),
    "pairs": ("regr_count(d, n)", Call("regr_count", "d", by="n")),
    "mean_x": ("regr_avgx(d, n)", Call("regr_avgx", "d", by="n")),
    "mean_y": ("regr_avgy(d, n)", Call("regr_avgy", "d", by="n")),
    "together": ("covar_pop(d, n)", Call("covar_pop", "d", by="n")),
    "most_n": ("approx_percentile(n, 0.95, 1000)", Call("approx_percentile", "n", number=0.95)),
    **{
        f"{f}_{c}_{y}": (f"{f}({c}, {y})", Call(f, c, by=y))
        for f in ("min_by", "max_by")
        for c, y in ("si", "ds", "wd")
    },
    **{f"list_{c}": (f"collect_list({c}, 3)", Call("collect_list", c, number=3)) for c in "ndsbu"},
    **{f"set_{c}": (f"collect_set({c}, 3)", Call("collect_set", c, number=3)) for c in "ndmsx"},
}
_FILTERS = {
    "if_b": Where("b", lambda row: row["b"]),
    "if_n": Where("n > 0 OR s = 'a'", lambda row: (row["n"] is not None and row["n"] > 0) or row["s"] == "a"),
}
AGGREGATES.update(
    {
        f"{name}_{suffix}": (f"{sql} filter (where {where.sql})", replace(call, where=where))
        for suffix, where in _FILTERS.items()
        for name, (sql, call) in list(AGGREGATES.items())
        if name
        in {
            "median_d",
            "bit_xor_i",
            "true_b",
            "together",
            "all",
            "sum_i",
            "max_s",
            "first_d",
            "last_s",
            "avg_w",
            "distinct_s",
            "half_n",
            "max_by_s_i",
            "list_n",
        }
    }
)


@dataclass(frozen=True)
class Case:
    """A job and its input. `borders` cut the rows into files, the first `flip` of which are history."""

    keys: tuple[Kind, ...]
    rows: Rows
    borders: tuple[int, ...]
    flip: int
    names: tuple[str, ...]  # of AGGREGATES
    mode: Mode
    parallelism: int
    backlog_parallelism: int | None
    max_parallelism: int
    sort_memory: int
    has_sql: bool  # then Spark reads the files; otherwise the map tasks do

    @property
    def key_by(self) -> list[str]:
        """k0, k1, ..."""
        return [f"k{i}" for i in range(len(self.keys))]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the files."""
        fields = [pa.field(name, kind.arrow) for name, kind in zip(self.key_by, self.keys, strict=True)]
        fields += [pa.field(name, data_type) for name, (data_type, _) in VALUES.items()]
        return pa.schema([*fields, pa.field("at", EVENT_TIME)])

    @property
    def ddl(self) -> str:
        """The same for Spark."""
        columns = ", ".join(f"{name} {kind.sql}" for name, kind in zip(self.key_by, self.keys, strict=True))
        values = (
            "i bigint, n int, d double, m decimal(10,2), w decimal(30,5), s string, b boolean, x binary, u timestamp"
        )
        return f"{columns}, {values}, at timestamp"

    @property
    def story(self) -> Story:
        """The rows as files."""
        pieces = [
            parquet_piece(f"{number:03}", self.rows[start:end], self.schema)
            for number, (start, end) in enumerate(zip(self.borders, self.borders[1:], strict=False))
        ]
        source = partial(Source.parquet, schema=self.ddl, event_time="at")
        return Story(pieces, self.flip, source)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the job's settings other than its steps."""
        return {
            "parallelism": self.parallelism,
            "backlog_parallelism": self.backlog_parallelism,
            "max_parallelism": self.max_parallelism,
            "sort_memory": self.sort_memory,
        }


def parquet_piece(name: str, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> ParquetPiece:
    """Rows that arrive as one Parquet file."""
    return ParquetPiece(name, pa.Table.from_pylist(list(rows), schema))


#: made once: hypothesis takes longer to make it than to draw from it
_VALUES = st.fixed_dictionaries({name: st.none() | strategy for name, (_, strategy) in VALUES.items()})


@st.composite
def cases(draw: st.DrawFn, modes: Sequence[Mode], *, needs_spark: bool = True) -> Case:
    """Any job over any rows, in one of `modes`. Without Spark, it has no SQL and no expression."""
    keys = tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)))
    rows = draw(_rows(keys))
    cuts = draw(st.lists(st.integers(0, len(rows)), max_size=3))
    files = (
        draw(st.sampled_from([1, 1, 1, 1, 0])) if not cuts else len(cuts) + 1
    )  # now and then there is no file at all
    borders = (0, *sorted(cuts), len(rows)) if files else ()
    parallelism = draw(st.sampled_from([1, 2, 4]))
    known = sorted(AGGREGATES if needs_spark else (name for name in AGGREGATES if not name.endswith("_if_n")))
    names = draw(st.lists(st.sampled_from(known), min_size=1, max_size=8, unique=True))
    return Case(
        keys=keys,
        rows=rows if files else [],
        borders=borders,
        flip=draw(st.integers(0, files)),
        names=tuple(names),
        mode=draw(st.sampled_from(modes)),
        parallelism=parallelism,
        backlog_parallelism=draw(st.sampled_from([None, None, 1, 3])),
        max_parallelism=draw(st.sampled_from([4, 13, 128])),
        sort_memory=draw(st.sampled_from([2**28, 2**28, 2_000])),
        has_sql=needs_spark and draw(st.booleans()),
    )


@st.composite
def _rows(draw: st.DrawFn, keys: tuple[Kind, ...]) -> Rows:
    count = draw(st.integers(0, 30))
    shape = draw(st.sampled_from(["few", "few", "one", "giant", "distinct", "any"]))
    new_key = st.tuples(*(st.none() | kind.values for kind in keys))
    pool = draw(st.lists(new_key, min_size=1, max_size=4))
    picks = {
        "few": st.sampled_from(pool),
        "one": st.just(pool[0]),
        "giant": st.sampled_from([pool[0]] * 9 + pool),
        "distinct": new_key,
        "any": st.sampled_from(pool) | new_key,
    }[shape]
    rows: Rows = []
    for _ in range(count):
        key = dict(zip((f"k{i}" for i in range(len(keys))), draw(picks), strict=True))
        rows.append({**key, **draw(_VALUES), "at": draw(_EVENT_TIMES)})
    return rows
