"""Steps with apply-changes on Spark: expressions, columns, SQL around them, and what is refused."""

from typing import Any

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.job import Job, Source
from mixedmode.testing import run_graph

pytestmark = pytest.mark.usefixtures("spark")
DDL = "meta struct<op: string, lsn: bigint>, id int, name string, city string, _op string"


def records(*changes: tuple[str, int, int, str | None, str | None]) -> list[dict[str, Any]]:
    return [
        {"meta": {"op": op, "lsn": lsn}, "id": key, "name": name, "city": city, "_op": op}
        for op, lsn, key, name, city in changes
    ]


PARTS = [
    records(
        ("c", 1, 1, "ann", "Rome"), ("c", 2, 2, "bob", "Rome"), ("u", 6, 1, "anna", "Oslo"), ("d", 3, 3, None, None)
    ),
    records(("u", 4, 1, "x", "Bern"), ("d", 7, 2, None, None), ("c", 2, 3, "late", "Rome")),
    records(("c", 9, 2, "ben", "Rome")),
]


def changed(**more: Any) -> Job:
    job = Job("changed", sources={"s": Source.parquet("in", schema=DDL)}, mode="batch")
    own = {"delete_when": "meta.op = 'd'", "except_columns": ["meta", "_op"], **more}
    return job.key_by("id", name="people").apply_changes(sequence_by="meta.lsn", **own)


def test_records_of_changes_make_a_table_that_sql_reads() -> None:
    job = changed().sql("SELECT id, upper(name) AS name FROM previous WHERE city <> 'Oslo'")
    found = run_graph(job, {"s": PARTS[0]}, live=[{"s": part} for part in PARTS[1:]])
    assert found.table() == [{"id": 2, "name": "BEN"}]


def test_records_of_changes_make_the_history_of_a_table() -> None:
    job = changed(history=True, track="city", columns=["id", "city", "name"], except_columns=()).sql(
        "SELECT city, count(*) AS n, count(`__END_AT`) AS ended FROM previous GROUP BY city"
    )
    found = run_graph(job, {"s": PARTS[0]}, live=[{"s": part} for part in PARTS[1:]])
    assert sorted(found.table(), key=lambda row: row["city"]) == [
        {"city": "Bern", "n": 1, "ended": 1},
        {"city": "Oslo", "n": 1, "ended": 0},
        {"city": "Rome", "n": 4, "ended": 3},
    ]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"delete_when": "meta.op"}, "apply-changes.delete-when: this is no condition, which is true or false"),
        ({"delete_when": "opp = 'd'"}, "apply-changes.delete-when: .*opp"),
        ({"delete_when": "now() > '2020'"}, "apply-changes.delete-when: .*now"),
        (
            {"columns": ["nam"], "except_columns": ()},
            "apply-changes.columns: there is no column nam. Did you",
        ),
        ({"except_columns": ["meta", "op"]}, "apply-changes.except-columns: there is no column op. Did you mean _op"),
        ({"except_columns": ["meta"]}, "apply-changes: this name is kept for the output.* column=_op"),
        ({"history": True, "track": "meta"}, "apply-changes.track: there is no column meta. Columns here: name, city"),
    ],
)
def test_what_does_not_fit_the_records_is_refused(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidJobError, match=rf"steps\[0\]\.{problem}"):
        run_graph(changed(**more), {"s": []})


def test_a_record_with_a_column_that_history_adds_is_refused() -> None:
    source = Source.parquet("in", schema="id int, lsn bigint, `__start_at` bigint")
    keyed = Job("changed", sources={"s": source}, mode="batch").key_by("id")
    with pytest.raises(InvalidJobError, match=r"apply-changes.history adds a column of this name.*column=__start_at"):
        run_graph(keyed.apply_changes(sequence_by="lsn", history=True), {"s": []})


def test_a_sequence_that_has_no_order_is_refused() -> None:
    job = Job("changed", sources={"s": Source.parquet("in", schema=DDL)}, mode="batch")
    with pytest.raises(InvalidJobError, match="rows cannot be ordered by values of this type"):
        run_graph(job.key_by("id").apply_changes(sequence_by="meta", columns="name"), {"s": []})


def test_a_step_that_reads_rows_that_never_change_is_refused_after_it() -> None:
    job = changed().key_by("city").deduplicate(keep="any")
    problem = r"'deduplicate'\] cannot read the rows of steps\[0\], which change with each record"
    with pytest.raises(InvalidJobError, match=problem):
        run_graph(job, {"s": []})


def test_the_changes_of_another_step_are_no_records_of_changes() -> None:
    job = changed().key_by("city").apply_changes(sequence_by="id")
    with pytest.raises(InvalidJobError, match=r"'apply-changes'\] cannot read the rows of steps\[0\]"):
        run_graph(job, {"s": []})
