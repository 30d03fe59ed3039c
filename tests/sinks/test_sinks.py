"""All outputs of a job as one: each file goes to its own folder, and a publication that was cut short is finished."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.connectors.console.sink import ConsoleSink
from mixedmode.connectors.files.sink import FileSink
from mixedmode.errors import InvalidJobError
from mixedmode.sinks import OutputSchema, Sink, Sinks, SinkTask, staging_folder
from mixedmode.sinks.publish import published_files, read_output_description
from tests import staging

MAIN = OutputSchema((pa.field("k", pa.string()), pa.field("n", pa.int64())), ("k",))
SIDE = OutputSchema((pa.field("n", pa.int64()),))
NAMES = ["", "late", "alerts"]


def outputs(folder: Path, *, names: Sequence[str] = NAMES, replaces: bool = False) -> Sinks:
    """File sinks in `folder`, one folder each, that of the main output around the others."""
    urls = {name: str(folder / "out" / name) for name in names}
    return Sinks({name: FileSink("job", url, "parquet", replaces=replaces) for name, url in urls.items()})


def schemas(names: Sequence[str] = NAMES) -> dict[str, OutputSchema]:
    return {name: SIDE if name else MAIN for name in names}


def stage(sinks: Sinks, folder: Path, rows: Mapping[str, list[int]], *, epoch: int = 0) -> list[StagedFile]:
    """Stage the rows of one subtask, all of it in one local folder."""
    local = folder / f"local-{epoch}"
    files: list[StagedFile] = []
    for name, values in rows.items():
        side = pa.table({"n": pa.array(values, pa.int64())})
        table = side if name else side.add_column(0, "k", pa.array([f"k{n}" for n in values]))
        files += staging.stage(sinks.tasks[name], local, f"a{epoch}", table, epoch=epoch, name=name)
    return files


def published(sinks: Sinks) -> dict[str, list[int]]:
    found = {}
    for name, sink in sinks.by_name.items():
        paths = [path for path, _ in published_files(sink.store)]
        tables = [pq.read_table(pa.BufferReader(sink.store.get(path))) for path in paths]
        found[name] = [n for table in tables for n in table.column("n").to_pylist()]
    return found


def test_each_output_is_described_and_published_in_its_own_folder(tmp_path: Path) -> None:
    sinks = outputs(tmp_path)
    sinks.prepare(schemas(), known=())
    for name, sink in sinks.by_name.items():
        description = read_output_description(sink.store)
        assert description is not None
        assert description.key_columns == schemas()[name].key_columns
        assert [column.name for column in description.columns] == [field.name for field in schemas()[name].fields]
    first = stage(sinks, tmp_path, {"": [1, 2], "late": [3], "alerts": []})
    assert published(sinks) == {"": [], "late": [], "alerts": []}
    for _ in range(2):  # a repeat changes nothing
        sinks.publish(Epoch(0), first)
        assert published(sinks) == {"": [1, 2], "late": [3], "alerts": []}
    sinks.publish(Epoch(1), stage(sinks, tmp_path, {"alerts": [4], "late": [5]}, epoch=1))
    assert published(sinks) == {"": [1, 2], "late": [3, 5], "alerts": [4]}
    outputs(tmp_path).prepare(schemas(), known=schemas())


def test_what_tasks_and_collections_need_is_there_for_every_output(tmp_path: Path) -> None:
    sinks = outputs(tmp_path)
    assert sinks.tasks == {name: SinkTask(str(tmp_path / "out" / name), "parquet") for name in NAMES}
    assert [store.url for store in sinks.stores] == [sink.store.url for sink in sinks.by_name.values()]


@pytest.mark.parametrize("done", list(product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]], ids=str)
def test_a_publication_that_was_cut_short_anywhere_is_finished(
    tmp_path: Path, done: tuple[bool, ...], order: list[str]
) -> None:
    sinks = outputs(tmp_path, names=order)
    sinks.prepare({name: schemas()[name] for name in order}, known=())
    files = stage(sinks, tmp_path, {"": [1], "late": [2], "alerts": [3]})
    for file, is_done in zip(files, done, strict=True):
        if is_done:
            sinks.by_name[file.sink].store.rename_all([(file.staged_path, file.final_path)])
    sinks.publish(Epoch(0), files)
    assert published(sinks) == {"": [1], "late": [2], "alerts": [3]}
    assert all(store.list("_staging") == [] for store in sinks.stores)


def test_rows_of_an_output_that_the_job_no_longer_has_are_not_passed_over(tmp_path: Path) -> None:
    files = stage(outputs(tmp_path), tmp_path, {"": [1], "late": [2]})
    without = outputs(tmp_path, names=["", "alerts"])
    with pytest.raises(InvalidJobError) as caught:
        without.publish(Epoch(0), files)
    assert str(caught.value) == (
        "the latest checkpoint has rows for an output that the job no longer names, and they may not be published yet. "
        "Put the output back into the job, with its old path. output='late', outputs=['', 'alerts']"
    )
    assert published(without) == {"": [], "alerts": []}, "nothing is published by halves"


def test_an_output_may_be_added_to_a_job_that_goes_on(tmp_path: Path) -> None:
    outputs(tmp_path, names=["", "late"]).prepare(schemas(["", "late"]), known=())
    outputs(tmp_path).prepare(schemas(), known=["", "late"])
    assert outputs(tmp_path).by_name.keys() == set(NAMES)


def test_an_output_that_the_job_had_and_whose_folder_is_gone_is_refused(tmp_path: Path) -> None:
    outputs(tmp_path, names=["", "late"]).prepare(schemas(["", "late"]), known=())
    with pytest.raises(InvalidJobError, match=f"is not in this folder.*folder={tmp_path / 'out' / 'alerts'}$"):
        outputs(tmp_path).prepare(schemas(), known=NAMES)


def test_a_batch_run_replaces_every_output_also_one_that_has_no_rows_any_more(tmp_path: Path) -> None:
    for rows in ({"": [1], "late": [2], "alerts": [3]}, {"": [4], "late": [], "alerts": [5]}):
        sinks = outputs(tmp_path, replaces=True)
        sinks.prepare(schemas(), known=())
        sinks.publish(Epoch(0), stage(sinks, tmp_path, rows))
        assert published(sinks) == rows
        for path in (tmp_path / "local-0").iterdir():
            path.unlink()


def test_an_output_on_the_console_stands_beside_files(tmp_path: Path) -> None:
    shown: list[tuple[list[int], int, str]] = []

    def show(rows: pa.Table, total: int, name: str) -> None:
        shown.append((rows.column("n").to_pylist(), total, name))

    by_name: dict[str, Sink] = {
        name: ConsoleSink(staging_folder(tmp_path / "c", name), show, name) for name in ("", "late")
    }
    sinks = Sinks({**by_name, "alerts": FileSink("job", str(tmp_path / "out"), "parquet", replaces=False)})
    sinks.prepare(schemas(), known=())
    files = stage(sinks, tmp_path, {"": [1], "late": [2, 3], "alerts": [4]})
    for _ in range(2):
        sinks.publish(Epoch(0), files)
    assert shown == [([1], 1, ""), ([2, 3], 2, "late")]
    assert published(Sinks({"alerts": sinks.by_name["alerts"]})) == {"alerts": [4]}
