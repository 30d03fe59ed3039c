"""The history of an Iceberg table is read whole although others commit meanwhile. On a session with a few rows."""

from types import SimpleNamespace as Values
from typing import Any

import pytest

from mixedmode.connectors.lakehouse.iceberg import IcebergTable
from mixedmode.connectors.lakehouse.table import Mark

MARK = Mark("job", "", "epoch", 3)


def session_of_others(*, keeps: int) -> Any:
    """A session with one table, to which others commit after the first reads. Old snapshots expire with that."""
    snapshots = [snapshot(0, {"mixedmode": MARK.to_text()})]

    def table(name: str) -> Any:
        rows = [Values(snapshot_id=snapshots[-1].snapshot_id)] if name.endswith("refs") else [*snapshots]
        newest = snapshots[-1].snapshot_id
        if newest < 3:
            snapshots.append(snapshot(newest + 1, {}))
            del snapshots[:-keeps]
        frame = Values(collect=lambda: rows, schema=None)
        frame.where = lambda _: frame
        return frame

    conf = Values(get=lambda *_: "a catalog")
    return Values(sql=lambda _: Values(collect=list), read=Values(table=table), conf=conf)


def snapshot(number: int, summary: dict[str, str]) -> Any:
    parent = number - 1 if number else None
    return Values(snapshot_id=number, parent_id=parent, summary=summary, operation="append", committed_at=number)


@pytest.mark.parametrize("keeps", [1, 2, 9])
def test_commits_of_others_hide_no_snapshot_that_is_left(keeps: int) -> None:
    """A table without a snapshot would be taken for one that was made anew."""
    table = IcebergTable(session_of_others(keeps=keeps), None, "lake.db.t")
    commits = list(table.commits(("job", "")))
    assert commits
    assert (commits[-1].mark == MARK) == (keeps > 1)
