"""AUTO CDC in a SQL file: it means a step with apply-changes, and each mistake is told with its line."""

from pathlib import Path
from typing import Any

import pytest

from mixedmode.config import load_job
from mixedmode.config.sql_changes import sequence_texts
from mixedmode.errors import InvalidJobError

BEGIN = """\
SET execution.checkpointing.dir = run/checkpoints;
CREATE TEMPORARY VIEW r (op STRING, lsn BIGINT, id INT, x INT) USING json OPTIONS (path 'data/r');
CREATE STREAMING TABLE t TBLPROPERTIES ('path' = 'run/t');
"""
FLOW = "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM r KEYS (id) "


def steps(folder: Path, text: str) -> list[dict[str, Any]]:
    path = folder / "job.sql"
    path.write_text(text, encoding="utf-8")
    found: list[dict[str, Any]] = load_job(path).spec.as_document()["steps"]
    return found


@pytest.mark.parametrize(
    ("clauses", "settings"),
    [
        ("SEQUENCE BY lsn", {"sequence-by": ["lsn"]}),
        (
            "SEQUENCE BY lsn + 1 APPLY AS DELETE WHEN op IN ('d', 'columns') OR x = (1)",
            {"sequence-by": ["lsn + 1"], "delete-when": "op IN ('d', 'columns') OR x = (1)"},
        ),
        ("SEQUENCE BY struct(lsn, coalesce(x, 0))", {"sequence-by": ["lsn", "coalesce(x, 0)"]}),
        ("COLUMNS (id, x) SEQUENCE BY lsn STORED AS SCD TYPE 1", {"sequence-by": ["lsn"], "columns": ["id", "x"]}),
        (
            "SEQUENCE BY lsn COLUMNS * EXCEPT (op, `lsn`) STORED AS SCD TYPE 2 TRACK HISTORY ON (x)",
            {"sequence-by": ["lsn"], "except-columns": ["op", "lsn"], "history": True, "track": ["x"]},
        ),
        (
            "SEQUENCE BY lsn STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (x)",
            {"sequence-by": ["lsn"], "history": True, "track-except": ["x"]},
        ),
    ],
)
def test_a_flow_of_changes_is_a_step(tmp_path: Path, clauses: str, settings: dict[str, Any]) -> None:
    step = {"name": "t", "from": ["r"], "key-by": ["id"], "apply-changes": settings}
    assert steps(tmp_path, BEGIN + FLOW + clauses) == [step]
    table = "CREATE STREAMING TABLE t TBLPROPERTIES ('path' = 'run/t') FLOW AUTO CDC FROM STREAM(r) KEYS (id) "
    assert steps(tmp_path, BEGIN.rsplit("\n", 2)[0] + "\n" + table + clauses) == [step]


def test_changes_are_read_from_a_query_and_read_by_others(tmp_path: Path) -> None:
    text = (
        "CREATE FLOW f COMMENT 'c' AS AUTO CDC INTO t FROM (SELECT *, x + 1 AS y FROM STREAM r) KEYS (id, y) "
        "SEQUENCE BY lsn; CREATE STREAMING TABLE n TBLPROPERTIES (path 'run/n') AS SELECT count(*) AS n FROM STREAM t"
    )
    assert [(one["name"], one["from"]) for one in steps(tmp_path, BEGIN + text)] == [
        ("t_records", ["r"]),
        ("t", ["t_records"]),
        ("n", ["t"]),
    ]


@pytest.mark.parametrize(
    ("statement", "mistake"),
    [
        (FLOW, "AUTO CDC has the order of the records. Write SEQUENCE BY and a column. found=the end of the statement"),
        (FLOW + "SEQUENCE BY", "SEQUENCE BY has a column or an expression. Write it. found=the end of the statement"),
        (FLOW + "SEQUENCE BY lsn SEQUENCE BY lsn", "this clause is there twice. AUTO CDC has each of APPLY AS DELETE"),
        (FLOW + "SEQUENCE BY lsn STORED AS SCD TYPE 3", "Write SCD TYPE 1, or SCD TYPE 2. found=SCD"),
        (FLOW + "SEQUENCE BY lsn COLUMNS id", "COLUMNS has the names of columns in parentheses. Write COLUMNS (day)."),
        (FLOW + "SEQUENCE BY lsn APPLY AS TRUNCATE WHEN op = 't'", "a record that deletes all rows of a table is not"),
        (FLOW + "IGNORE NULL UPDATES SEQUENCE BY lsn", "a record has all columns of its row here: NULL is a value."),
        (FLOW + "PARTITIONED BY (id)", "this has no meaning in AUTO CDC. After KEYS, it has APPLY AS DELETE WHEN"),
        ("CREATE FLOW f AS AUTO CDC INTO t KEYS (id)", "AUTO CDC reads the records of changes. Write FROM STREAM and"),
        (
            "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM r SEQUENCE BY a",
            "AUTO CDC has the key of the table. Write",
        ),
        ("CREATE FLOW f AS AUTO CDC INTO t FROM STREAM r, STREAM s KEYS (id)", "AUTO CDC reads one stream. Write FROM"),
        (
            FLOW + "SEQUENCE BY a; CREATE FLOW g AS INSERT INTO t BY NAME SELECT * FROM STREAM r",
            "a table that AUTO CDC makes has one flow. Unite the records in a view with UNION ALL. table=t",
        ),
        (
            FLOW.replace("INTO t", "INTO u") + "SEQUENCE BY a",
            "the file has no streaming table of this name. Create it, without AS. found=u",
        ),
        (FLOW.replace("STREAM r", "r") + "SEQUENCE BY a", "this query reads no stream. Write FROM STREAM"),
        (FLOW.replace("STREAM r", "STREAM q") + "SEQUENCE BY a", "the file has no view or table of this name."),
    ],
)
def test_a_wrong_flow_of_changes_is_told_with_its_line(tmp_path: Path, statement: str, mistake: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        steps(tmp_path, BEGIN + statement)
    assert f"{tmp_path}/job.sql:4: " in str(caught.value)
    assert mistake in str(caught.value)


@pytest.mark.parametrize("text", ["lsn", "'", "a; b", "struct()", "struct(a, b).a", "named_struct('a', 1)", ""])
def test_only_a_struct_is_several_expressions(text: str) -> None:
    assert sequence_texts(text) == [text]
