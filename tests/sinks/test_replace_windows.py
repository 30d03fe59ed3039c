"""Rows of windows in an output folder are replaced at once: all old ones or all new ones, whatever is killed."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from mixedmode.checkpoint.types import Epoch
from mixedmode.connectors.files.compact import compact_output
from mixedmode.connectors.files.compaction import CompactionPlan, newest_plan, put_plan
from mixedmode.connectors.files.sink import FileSink
from mixedmode.errors import InvalidJobError
from mixedmode.sinks.files import FileFormat, FileLayout
from mixedmode.sinks.publish import parsed_files, superseded
from mixedmode.sinks.row_files import Compression
from mixedmode.sinks.table import read_output
from mixedmode.time.window_range import Bound, ReplacedRows, WindowRange
from tests.staging import stage
from tests.walk.faults import Faults, KillAtStep, Killed

HOUR_US = 3_600_000_000
TIME = pa.timestamp("us", "UTC")
FIELDS = (
    pa.field("window_start", TIME),
    pa.field("window_end", TIME),
    pa.field("k", pa.string()),
    pa.field("n", pa.int64()),
)
KEY = ("window_start", "window_end", "k")
Row = dict[str, Any]
FORMATS: list[tuple[FileFormat, Compression]] = [("parquet", "zstd"), ("json", "gzip"), ("csv", "none")]


def hour(number: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=number)


def window(number: int, k: str, n: int) -> Row:
    return {"window_start": hour(number), "window_end": hour(number + 1), "k": k, "n": n}


def hours(start: int, end: int) -> WindowRange:
    return WindowRange(start * HOUR_US, end * HOUR_US)


class Windows:
    """An output of windows, one hour an epoch, and its rows in plain Python."""

    def __init__(
        self, folder: Path, form: tuple[FileFormat, Compression] = ("parquet", "zstd"), *, keyed: bool
    ) -> None:
        self.folder, self.keyed = folder, keyed
        self.url = str(folder / "out")
        self.layout = FileLayout(compression=form[1])
        self.sink = FileSink("job", self.url, form[0], replaces=False, layout=self.layout)
        self.sink.prepare(FIELDS, KEY if keyed else (), is_fresh=True)
        self.rows: list[Row] = []

    def publish(self, epoch: int, rows: list[Row]) -> None:
        for subtask in (0, 1):
            given = rows[subtask::2]
            if not given:
                continue
            local = self.folder / f"local-{epoch}-{subtask}"
            extra = [pa.field("_op", pa.string())] if self.keyed else []
            ops = [{**row, "_op": "insert"} for row in given] if self.keyed else given
            table = pa.Table.from_pylist(ops, pa.schema([*FIELDS, *extra]))
            unique = f"a{epoch}x{subtask}"
            staged = stage(self.sink.task, local, unique, table, epoch=epoch, subtask=subtask)
            self.sink.publish(Epoch(epoch), staged)
        self.rows += rows

    def replaced(self, rows: list[Row], windows: WindowRange) -> list[Row]:
        start, end = windows.bounds
        return [row for row in self.rows if not (row["window_start"] >= start and row["window_end"] <= end)] + rows

    def replace(self, rows: list[Row], windows: WindowRange, before: int) -> None:
        replaced = ReplacedRows(Bound("window_start", windows.start_us), Bound("window_end", windows.end_us))
        self.sink.replace_windows(pa.Table.from_pylist(rows, pa.schema(FIELDS)), replaced, Epoch(before))

    def read(self) -> list[Row]:
        return in_order(read_output(self.url).to_pylist())


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def filled(
    folder: Path, form: tuple[FileFormat, Compression] = ("parquet", "zstd"), *, keyed: bool = False, epochs: int = 6
) -> Windows:
    output = Windows(folder, form, keyed=keyed)
    chance = Random(3)
    for epoch in range(epochs):
        output.publish(epoch, [window(epoch, k, chance.randrange(100)) for k in "abc"])
    return output


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("keyed", [False, True], ids=["appends", "upserts"])
def test_the_windows_of_a_range_have_the_new_rows_and_all_others_the_old(
    tmp_path: Path, form: tuple[FileFormat, Compression], keyed: bool
) -> None:
    output = filled(tmp_path, form, keyed=keyed)
    new = [window(1, "a", 1000), window(2, "new", 2000)]
    expected = output.replaced(new, hours(1, 3))
    for _ in range(2):  # a repeat changes nothing more
        output.replace(new, hours(1, 3), before=4)
        assert output.read() == in_order(expected)
    output.rows = expected
    output.publish(6, [window(6, "a", 6)])
    compact_output(output.sink.task, before=Epoch(5), target_bytes=1 << 40, newest_only=keyed)
    assert output.read() == in_order(output.rows)
    output.replace([], hours(0, 2), before=5)
    assert output.read() == in_order(output.replaced([], hours(0, 2))), "the merged file is written again"


def test_rows_of_an_epoch_to_which_the_job_may_go_back_are_not_replaced(tmp_path: Path) -> None:
    output = filled(tmp_path)
    with pytest.raises(InvalidJobError, match="epoch to which the job may still go back"):
        output.replace([window(3, "a", 1)], hours(2, 4), before=3)
    with pytest.raises(InvalidJobError, match="no file of an epoch before the oldest checkpoint"):
        output.replace([window(-9, "a", 1)], hours(-9, -8), before=0)
    assert output.read() == in_order(output.rows)


def test_windows_that_had_no_rows_get_some(tmp_path: Path) -> None:
    output = filled(tmp_path)
    output.replace([window(-9, "a", 1)], hours(-9, -8), before=4)
    assert output.read() == in_order([*output.rows, window(-9, "a", 1)])


def test_going_back_to_before_the_checkpoints_of_a_backfill_is_refused(tmp_path: Path) -> None:
    """Also where its rows are in a file that going back would delete, and after a compaction."""
    output = filled(tmp_path)
    output.replace([window(-9, "a", 1)], hours(-9, -8), before=4)
    expected = output.read()
    for _ in range(2):
        with pytest.raises(InvalidJobError, match=r"when a backfill replaced rows .* epoch=2, oldest_epoch=4"):
            output.sink.roll_back(Epoch(2))
        assert output.read() == expected
        compact_output(output.sink.task, before=Epoch(3), target_bytes=1 << 40, newest_only=False)
    output.replace([], hours(0, 1), before=5)
    with pytest.raises(InvalidJobError, match="epoch=4, oldest_epoch=5"):
        output.sink.roll_back(Epoch(4))
    output.sink.roll_back(Epoch(5))


def test_a_backfill_that_is_stored_late_does_not_take_the_number_of_a_plan_that_is_forgotten(tmp_path: Path) -> None:
    output = filled(tmp_path)
    for hour in (0, 1):
        output.replace([], hours(hour, hour + 1), before=4)
    plan = CompactionPlan(Epoch(4), False, (), Epoch(0))
    assert not put_plan(output.sink.store, 0, plan)
    assert newest_plan(output.sink.store)[0] == 1
    assert put_plan(output.sink.store, 2, plan)


def killed_at(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> bool:
    """Kill a replacement at a step of I/O, check the table, and repeat. Return whether there is such a step."""
    new, is_merged, then_compacts = [window(1, "a", 1000), window(2, "new", 2000)], number % 2, number % 3 == 0
    faults, output = Faults(), filled(folder, epochs=4)
    if is_merged:
        compact_output(output.sink.task, before=Epoch(3), target_bytes=1 << 40, newest_only=False)
    old, expected = in_order(output.rows), in_order(output.replaced(new, hours(1, 3)))
    is_killed = True
    with monkeypatch.context() as patch:
        faults.install(patch)
        with faults.armed(KillAtStep(number)), suppress(Killed):
            output.replace(new, hours(1, 3), before=3)
            is_killed = False
    found = output.read()
    assert found in ((old, expected) if is_killed else (expected,)), number
    if then_compacts:
        compact_output(output.sink.task, before=Epoch(3), target_bytes=1 << 40, newest_only=False)
        assert output.read() in (found, expected), "completed, if the rows were stored"
    output.replace(new, hours(1, 3), before=3)
    assert output.read() == expected
    assert not [path for path, _ in output.sink.store.list("_compactions") if path.endswith(".rows")]
    assert not superseded(parsed_files(output.sink.store))
    return is_killed


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_a_replacement_that_is_killed_at_any_step_has_replaced_all_rows_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    numbers = []
    for number in range(0, 1000, stride):
        folder = tmp_path / str(number)
        folder.mkdir()
        if not killed_at(folder, monkeypatch, number):
            break
        numbers.append(number)
    assert len(numbers) > 3, "there are steps"


class Interrupting(Faults):
    """Runs something whole at one step of I/O of somebody else."""

    def __init__(self, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.is_reached = False
        self._at, self._meanwhile, self._count = at, meanwhile, 0

    def step(self, *, can_fail: bool = True) -> None:
        del can_fail
        number, self._count = self._count, self._count + 1
        if number == self._at:
            self.is_reached = True
            self._meanwhile()


def beside_another_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, other: str, *, is_merged: bool
) -> bool:
    """Replace rows, and have another change of the folder at a step of I/O. Return whether there is such a step."""
    output, new, others = filled(folder, epochs=6), [window(1, "a", 1000)], [window(2, "new", 2000)]
    if is_merged:
        compact_output(output.sink.task, before=Epoch(4), target_bytes=1 << 40, newest_only=False)

    def compact(*, newest_only: bool) -> None:
        compact_output(output.sink.task, before=Epoch(4), target_bytes=1 << 40, newest_only=newest_only)

    def replace() -> None:
        output.replace(new, hours(1, 2), before=4)

    def replace_others() -> None:
        output.replace(others, hours(2, 3), before=4)

    def both() -> None:
        replace_others()
        compact(newest_only=False)

    cases: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "backfill": (replace, replace_others),
        "compaction": (replace, partial(compact, newest_only=False)),
        "newest-only": (replace, partial(compact, newest_only=True)),
        "both": (replace, both),
        "in a compaction": (partial(compact, newest_only=False), replace),
        "in newest-only": (partial(compact, newest_only=True), replace),
    }
    first, second = cases[other]
    expected = output.replaced(new, hours(1, 2))
    if other in ("backfill", "both"):
        output.rows = expected
        expected = output.replaced(others, hours(2, 3))
    faults = Interrupting(number, second)
    with monkeypatch.context() as patch:
        faults.install(patch)
        first()
    if not faults.is_reached:
        return False
    assert output.read() == in_order(expected), number
    compact(newest_only=False)
    assert output.read() == in_order(expected), number
    assert not superseded(parsed_files(output.sink.store))
    return True


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize(
    "other", ["backfill", "compaction", "newest-only", "both", "in a compaction", "in newest-only"]
)
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_a_replacement_beside_another_one_or_a_compaction_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int, other: str, is_merged: bool
) -> None:
    numbers = []
    for number in range(0, 1000, stride):
        folder = tmp_path / str(number)
        folder.mkdir()
        if not beside_another_one(folder, monkeypatch, number, other, is_merged=is_merged):
            break
        numbers.append(number)
    assert len(numbers) > 3, "there are steps"
