"""Publication: repeatable, durable, and never over what somebody else wrote."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import output_paths
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.errors import CorruptStateError, InvalidJobError, RetryableError
from mixedmode.sinks.publish import (
    OutputColumn,
    OutputDescription,
    describe_output,
    publish,
    published_files,
    read_output_description,
)

SERIAL = itertools.count()
DESCRIPTION = OutputDescription(
    job="airport-delays",
    run="continuous",
    format="parquet",
    key_columns=("origin",),
    columns=(OutputColumn("origin", "string"), OutputColumn("flights", "int64")),
)


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "out" if request.param == "folder" else f"memory:///sink-{next(SERIAL)}")


def stage(store: ObjectStore, epoch: int, subtask: int) -> StagedFile:
    describe_output(store, DESCRIPTION)
    data = f"rows of {epoch}/{subtask}".encode()
    staged = output_paths.staged_path(Epoch(epoch), subtask, "a", "parquet")
    store.put(staged, data)
    final = output_paths.final_path(Epoch(epoch), subtask, "parquet")
    return StagedFile(staged, final, len(data), 1, checksum_of([data]))


def names(store: ObjectStore) -> list[str]:
    return [path for path, _ in store.list() if path != output_paths.OUTPUT_DESCRIPTION]


def test_staged_files_get_their_final_names(store: ObjectStore) -> None:
    files = [stage(store, 3, subtask) for subtask in range(3)]
    publish(store, files)
    assert names(store) == [file.final_path for file in files]
    assert store.get(files[1].final_path) == b"rows of 3/1"


def test_a_folder_that_is_deleted_while_the_job_runs_gets_no_further_epoch(store: ObjectStore) -> None:
    """Else the job would go on for days without a word, over an output that has lost its beginning."""
    publish(store, [stage(store, 0, 0)])
    files = [stage(store, 1, 0)]
    store.delete([output_paths.OUTPUT_DESCRIPTION, *names(store)])
    with pytest.raises(RetryableError, match=r"something deletes or moves the output folder\. Find out what it is"):
        publish(store, files)
    publish(store, [])
    assert names(store) == []


def test_publishing_again_changes_nothing(store: ObjectStore) -> None:
    files = [stage(store, 3, subtask) for subtask in range(2)]
    publish(store, files)
    publish(store, files)
    assert names(store) == [file.final_path for file in files]


def test_an_epoch_without_output_publishes_nothing(store: ObjectStore) -> None:
    publish(store, [])
    assert names(store) == []


@given(states=st.lists(st.sampled_from(["staged", "both", "final"]), min_size=1, max_size=6))
def test_a_publication_that_was_cut_short_anywhere_is_finished(states: list[str]) -> None:
    store = ObjectStore(f"memory:///cut-{next(SERIAL)}")
    files = [stage(store, 0, subtask) for subtask in range(len(states))]
    for file, state in zip(files, states, strict=True):
        if state != "staged":
            store.put(file.final_path, store.get(file.staged_path) or b"")
        if state == "final":
            store.delete([file.staged_path])
    publish(store, files)
    assert names(store) == [file.final_path for file in files]


def test_files_that_the_manifest_does_not_name_stay_unpublished(store: ObjectStore) -> None:
    files = [stage(store, 0, 0)]
    store.put("_staging/0000000000-0000000000-zombie.parquet", b"x")
    publish(store, files)
    assert names(store) == ["_staging/0000000000-0000000000-zombie.parquet", files[0].final_path]


def test_an_output_that_is_lost_is_named_in_full(store: ObjectStore) -> None:
    file = stage(store, 0, 0)
    store.delete([file.staged_path])
    with pytest.raises(CorruptStateError) as caught:
        publish(store, [file])
    assert str(caught.value) == (
        "a committed output file is gone, both as it was staged and as it is published: it was deleted from outside. "
        "Start the job again: it goes back to the checkpoint before, and writes the file anew. "
        f"folder={store.url}, staged={file.staged_path}, published={file.final_path}"
    )


@pytest.mark.parametrize("foreign", [b"rows of 9/9", b"longer than what was committed", b""])
@pytest.mark.parametrize("staged_is_there", [True, False])
def test_a_final_file_of_somebody_else_is_never_overwritten(
    store: ObjectStore, foreign: bytes, staged_is_there: bool
) -> None:
    file = stage(store, 0, 0)
    if not staged_is_there:
        store.delete([file.staged_path])
    store.put(file.final_path, foreign)
    with pytest.raises(CorruptStateError, match="is not the one that was committed"):
        publish(store, [file])
    assert store.get(file.final_path) == foreign
    assert store.exists(file.staged_path) == staged_is_there


def test_a_staged_file_that_was_cut_short_is_not_published(store: ObjectStore) -> None:
    file = stage(store, 0, 0)
    store.put(file.staged_path, b"cut")
    with pytest.raises(CorruptStateError, match="was damaged before it was published"):
        publish(store, [file])
    assert not store.exists(file.final_path)


def test_two_publishers_at_once_end_in_the_same_folder(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [stage(store, 0, subtask) for subtask in range(2)]
    real = ObjectStore.rename_all
    others = iter([True])

    def overtaken(self: ObjectStore, pairs: list[tuple[str, str]]) -> object:
        if next(others, False):
            real(self, pairs[:1])  # the other one renames the first file between our look and our rename
        return real(self, pairs)

    monkeypatch.setattr(ObjectStore, "rename_all", overtaken)
    publish(store, files)
    assert names(store) == [file.final_path for file in files]


def test_published_files_come_by_epoch_and_subtask(store: ObjectStore) -> None:
    describe_output(store, DESCRIPTION)
    files = [stage(store, epoch, subtask) for epoch, subtask in ((10, 0), (2, 1), (2, 0))]
    assert published_files(store) == []
    publish(store, files)
    assert [path for path, _ in published_files(store)] == sorted(file.final_path for file in files)


def test_a_description_is_written_once_and_read_back(store: ObjectStore) -> None:
    assert read_output_description(store) is None
    describe_output(store, DESCRIPTION)
    describe_output(store, DESCRIPTION)
    assert read_output_description(store) == DESCRIPTION
    assert [path for path, _ in store.list()] == ["_mixedmode"]


def test_the_bytes_of_a_description_are_those_of_its_format(store: ObjectStore) -> None:
    describe_output(store, DESCRIPTION)
    assert store.get("_mixedmode") == (
        b'{"kind":"mixedmode-output","format_version":2,"checksum":"99de4ad83d91c8af","content":{"job":"airport-delays",'
        b'"run":"continuous","format":"parquet","key_columns":["origin"],"columns":[{"name":"origin","type":"string"},'
        b'{"name":"flights","type":"int64"}],"partition_by":[]}}\n'
    )


def test_the_folder_of_another_output_is_refused_in_full(store: ObjectStore) -> None:
    describe_output(store, DESCRIPTION)
    with pytest.raises(InvalidJobError) as caught:
        describe_output(store, replace(DESCRIPTION, job="other", columns=DESCRIPTION.columns[:1]))
    assert str(caught.value) == (
        "the output folder holds the output of another job, or of this one with other columns, and files of both would "
        "be mixed: job was 'airport-delays' and is 'other'; columns was (origin string, flights int64) and is (origin "
        f"string). Give this output a new path, or put the setting back. folder={store.url}"
    )
    assert read_output_description(store) == DESCRIPTION


def test_a_damaged_description_is_said(store: ObjectStore) -> None:
    store.put("_mixedmode", b"{")
    with pytest.raises(CorruptStateError, match=r"the description of an output folder cannot be used"):
        read_output_description(store)
