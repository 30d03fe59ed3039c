"""Answers: the right one passes, in any order and with the last digits of doubles different; a wrong one is shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.errors import InternalError
from mixedmode_bench.answers import Answers
from mixedmode_bench.data import Data
from mixedmode_bench.workload import Workload
from tests.bench.toys import TINY
from tests.random_cases import random_cases

BAG = replace(TINY, name="bag", key=(), answer="SELECT k, v, v * 3 AS w FROM events")
Rows = list[dict[str, object]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("answers")
    TINY.write(found, TINY.size)
    (found / "other").mkdir()
    pq.write_table(pa.table({"least": [3]}), found / "other" / "part.parquet")
    return found


@contextmanager
def answers(workload: Workload, folder: Path, *waiting: Path) -> Iterator[Answers]:
    with Answers(workload, Data(folder, waiting, 0, is_new=False), folder / "scratch") as found:
        yield found


def checked(found: Answers, folder: Path, rows: Rows | pa.Table, *, may_lack: bool = False) -> None:
    file = folder / "answer.parquet"
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows), file)
    found.check("someone", file, may_lack=may_lack)


def counts() -> Rows:
    by_key = {key: [n / 10 for n in range(100) if n % 7 == key] for key in range(7)}
    return [{"k": key, "n": len(values), "total": sum(values)} for key, values in by_key.items()]


def bag() -> Rows:
    return [{"k": n % 7, "v": n / 10, "w": n / 10 * 3} for n in range(100)]


def message(workload: Workload, folder: Path, rows: Rows | pa.Table) -> str:
    with answers(workload, folder) as found, pytest.raises(InternalError) as caught:
        checked(found, folder, rows)
    return str(caught.value)


@settings(max_examples=random_cases(10))
@given(st.permutations(counts()), st.floats(-9e-10, 9e-10))
def test_the_order_and_the_last_digits_do_not_matter(folder: Path, rows: Rows, error: float) -> None:
    rows = [row | {"total": float(str(row["total"])) * (1 + error)} for row in rows]
    with answers(TINY, folder) as found:
        checked(found, folder, rows)


def test_one_answer_serves_several_contestants(folder: Path) -> None:
    with answers(TINY, folder) as found:
        checked(found, folder, counts())
        with pytest.raises(InternalError):
            checked(found, folder, counts()[:3])
        checked(found, folder, counts()[::-1])


def test_a_wrong_value_is_named_with_workload_and_contestant(folder: Path) -> None:
    workload = replace(TINY, answer="SELECT k, count(*) AS n, max(v) AS total FROM events GROUP BY k")
    rows = [{"k": k, "n": 15 if k < 2 else 14 + (k == 3), "total": (98 + k) / 10 - (k > 1) * 0.7} for k in range(7)]
    assert message(workload, folder, rows) == (
        "a wrong answer: 1 row other than the 7 of the answer, such as\n"
        "  wrong=another, k=3, n=14, total=9.4, found n=15, found total=9.4\n"
        "The benchmark ends here, since figures of wrong answers mean nothing. If the contestant is one of ours, "
        "report it. workload=tiny, contestant=someone"
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"total": 67.9 * (1 + 2e-9)}, "wrong=another, k=3"),
        ({"total": None}, "wrong=another, k=3"),
        ({"total": float("nan")}, "wrong=another, k=3"),
        ({"total": float("inf")}, "wrong=another, k=3"),
        ({"k": 30}, "wrong=too many, k=30"),
        ({"k": None}, "wrong=too many, k=None"),
        ({"k": 2}, "more than one row for the same key, such as\n  k=2, times=2"),
    ],
)
def test_what_is_wrong_with_a_row(folder: Path, change: dict[str, object], told: str) -> None:
    rows = counts()
    rows[3] |= change
    assert told in message(TINY, folder, rows)


def test_other_columns_are_a_wrong_answer(folder: Path) -> None:
    rows = pa.Table.from_pylist(counts()).rename_columns(["k", "n", "sum"])
    assert "its columns are k, n, sum, not k, n, total" in message(TINY, folder, rows)


@settings(max_examples=random_cases(8))
@given(st.permutations(bag()), st.floats(-9e-10, 9e-10))
def test_a_bag_may_hold_a_row_twice_and_have_other_last_digits(folder: Path, rows: Rows, error: float) -> None:
    workload = replace(BAG, answer=f"{BAG.answer} UNION ALL {BAG.answer}")
    rows = [*rows, *({"k": r["k"], "v": r["v"], "w": float(str(r["w"])) * (1 + error)} for r in rows)]
    with answers(workload, folder) as found:
        checked(found, folder, rows)


def test_a_bag_with_a_row_too_few_too_many_or_another_is_wrong(folder: Path) -> None:
    rows = bag()
    assert "wrong=missing, k=0, v=0.0, w=0.0" in message(BAG, folder, rows[1:])
    assert "wrong=too many, k=0, v=None, w=None, found v=0.0, found w=0.0" in message(BAG, folder, [rows[0], *rows])
    rows[4] |= {"w": 7.0}
    assert "wrong=another, k=4, v=0.4, w=1.2" in message(BAG, folder, rows)


def test_rows_may_lack_only_where_the_workload_allows_it_and_only_for_those_that_do_not_end(folder: Path) -> None:
    workload = replace(TINY, may_lack="k > (SELECT max(least) FROM other)")
    with answers(workload, folder) as found:
        checked(found, folder, counts()[:4], may_lack=True)
        with pytest.raises(InternalError, match="3 rows other"):
            checked(found, folder, counts()[:4])
        with pytest.raises(InternalError, match=r"1 row other(.|\n)*wrong=missing, k=3"):
            checked(found, folder, counts()[:3], may_lack=True)
        rows = counts()
        rows[6] |= {"n": 1}
        with pytest.raises(InternalError, match="1 row other"):  # it may lack, but not be wrong
            checked(found, folder, rows, may_lack=True)


def test_the_files_of_a_feed_belong_to_the_first_table(folder: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [3, 8], "v": [1.0, 2.0]}), tmp_path / "fed.parquet")
    rows = counts()
    rows[3] |= {"n": 15, "total": 68.9}
    with answers(TINY, folder, tmp_path / "fed.parquet") as found:
        checked(found, folder, [*rows, {"k": 8, "n": 1, "total": 2.0}])


def test_moments_are_the_same_in_any_unit_and_zone(folder: Path) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    workload = replace(
        TINY,
        key=("at",),
        answer="SELECT TIMESTAMP '2024-01-01' + k * INTERVAL 1 HOUR AS at, count(*) AS n FROM events GROUP BY k",
    )
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.timestamp("us", "Asia/Tokyo")):
        times = pa.array([start + timedelta(hours=key) for key in range(7)], pa.timestamp("us", "UTC")).cast(kind)
        with answers(workload, folder) as found:
            checked(found, folder, pa.table({"at": times, "n": [row["n"] for row in counts()]}))
