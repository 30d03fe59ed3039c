"""Files that a task stores while it goes on: what arrives, and what does when the task or the store fails."""

import errno
import threading
from pathlib import Path

import numpy as np
import pytest

from mixedmode.checkpoint import growing_file, local_files, remote_objects
from mixedmode.checkpoint import uploads as uploads_module
from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.checkpoint.growing_file import GivenUpError, GrowingFile
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.checkpoint.uploads import Stored, Uploads
from mixedmode.errors import RetryableError
from tests.faults.processes import wait_until
from tests.faults.proxy import Fault, fault_proxy, once
from tests.s3 import S3Server, environment

PART = 5 * 2**20  # the least that S3 takes


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_objects, "_PART_BYTES", PART)
    monkeypatch.setattr(growing_file, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(uploads_module, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(uploads_module, "_FOLLOWED_BYTES", PART)


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "folder":
        return ObjectStore(tmp_path / "store")
    server: S3Server = request.getfixturevalue("s3")
    for name, value in environment(server.url).items():
        monkeypatch.setenv(name, value)
    return ObjectStore(server.new_bucket())


def data_of(size: int, seed: int = 0) -> bytes:
    return np.arange(seed, seed + size // 8 + 1, dtype=">i8").tobytes()[:size]


def written(uploads: Uploads, store: ObjectStore, path: Path, name: str, pieces: list[bytes]) -> Stored:
    with path.open("wb") as file:
        upload = uploads.begin(store, path, name)
        for piece in pieces:
            file.write(piece)
            file.flush()
    upload.end()
    return upload.stored()


@pytest.mark.parametrize("size", [0, 1, PART, 2 * PART, 2 * PART + 1, 5 * PART + 7])
def test_a_file_of_any_size_is_stored_as_it_is(store: ObjectStore, tmp_path: Path, size: int) -> None:
    data = data_of(size)
    pieces = [data[start : start + PART // 2] for start in range(0, size, PART // 2)]
    with Uploads() as uploads:
        stored = written(uploads, store, tmp_path / "local", "a", pieces)
    assert stored == Stored(size, checksum_of([data]))
    assert store.get("a") == data


def test_an_object_store_gets_parts_of_a_file_before_its_end(tmp_path: Path) -> None:
    """Nobody sees the object meanwhile."""
    file = GrowingFile(tmp_path / "local")
    file.path.write_bytes(data_of(3 * PART))
    chunks = file.chunks()
    first = [next(chunks) for _ in range(3)]
    with file.path.open("ab") as more:
        more.write(b"the end")
    file.end()
    assert b"".join([*first, *chunks]) == data_of(3 * PART) + b"the end"
    assert file.has_ended


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that are synced, as they are."""
    synced, sync = list[Path](), local_files._sync_file

    def noted(path: Path) -> None:
        sync(path)
        synced.append(path)

    monkeypatch.setattr(local_files, "_sync_file", noted)
    monkeypatch.setattr(local_files, "_SYNCED_BYTES", PART)
    return synced


def test_the_disk_of_a_folder_gets_the_bytes_of_a_file_before_its_end(tmp_path: Path, synced: list[Path]) -> None:
    store, local = ObjectStore(tmp_path / "store"), tmp_path / "local"
    with Uploads() as uploads:
        upload = uploads.begin(store, local, "a")
        for parts in (1, 2, 3):
            local.write_bytes(data_of(parts * PART))
            wait_until(lambda: synced.count(local) == parts, "what is there is synced")  # noqa: B023
        assert store.get("a") is None
        upload.end()
        assert upload.stored() == Stored(3 * PART, checksum_of([data_of(3 * PART)]))
    assert synced.count(local) == 4, "the file is synced as a whole before it has its name"


def test_an_error_of_the_disk_before_the_end_of_a_file_is_told_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux tells it once: a later sync may succeed, although bytes are lost."""
    store, local, failed = ObjectStore(tmp_path / "store"), tmp_path / "local", threading.Event()

    def failing(_path: Path) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(local_files, "_SYNCED_BYTES", PART)
    monkeypatch.setattr(local_files, "_sync_file", failing)
    local.write_bytes(data_of(PART))
    with Uploads() as uploads:
        upload = uploads.begin(store, local, "a")
        wait_until(failed.is_set, "a sync fails")
        upload.end()
        with pytest.raises(RetryableError, match="a disk, or the server that has it, failed to read or write"):
            upload.stored()
    assert store.get("a") is None


def test_many_files_at_once(store: ObjectStore, tmp_path: Path) -> None:
    """None waits for another one."""
    names = [f"f{number}" for number in range(20)]
    with Uploads() as uploads:
        opened = {name: uploads.begin(store, tmp_path / name, name) for name in names}
        for number, (name, upload) in enumerate(opened.items()):
            (tmp_path / name).write_bytes(data_of(1000 + number, number))
            upload.end()
        (tmp_path / "whole").write_bytes(b"whole")
        whole = uploads.put(store, tmp_path / "whole", "whole")
        found = [upload.stored().bytes for upload in opened.values()]
        assert whole.stored().bytes == 5
    assert found == [1000 + number for number in range(20)]
    assert [store.get(name) for name in names] == [data_of(1000 + number, number) for number in range(20)]


def test_files_that_grow_leave_threads_for_those_that_have_ended(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five files that become large, as parts of a partitioned output and a state do, two at a time are followed."""
    for name, value in environment(s3.url).items():
        monkeypatch.setenv(name, value)
    store, names = ObjectStore(s3.new_bucket()), [f"f{number}" for number in range(5)]
    with Uploads() as uploads:
        opened = [uploads.begin(store, tmp_path / name, name) for name in names]
        for number, name in enumerate(names):
            (tmp_path / name).write_bytes(data_of(2 * PART, number))
        wait_until(lambda: sum(one.is_followed for one in opened) == 2, "two files are followed")
        (tmp_path / "whole").write_bytes(b"whole")
        assert uploads.put(store, tmp_path / "whole", "whole").stored().bytes == 5
        first = next(one for one in opened if one.is_followed)
        first.end()
        assert first.stored().bytes == 2 * PART
        wait_until(lambda: sum(one.is_followed for one in opened) == 2, "the next one is followed")
        for one in opened:
            one.end()
        assert [one.stored().bytes for one in opened] == [2 * PART] * 5
    assert [store.get(name) for name in names] == [data_of(2 * PART, number) for number in range(5)]


@pytest.mark.parametrize("size", [10, 4 * PART])
def test_a_file_of_a_task_that_fails_is_not_stored(store: ObjectStore, tmp_path: Path, size: int) -> None:
    (tmp_path / "local").write_bytes(data_of(size))
    with Uploads() as uploads:
        uploads.begin(store, tmp_path / "local", "a")  # and never ends
    assert store.get("a") is None
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mixedmode-upload")]


def test_a_file_that_a_failed_task_has_removed_has_no_bytes(tmp_path: Path) -> None:
    """The thread that looks at the sizes may come later than the task that cleans up."""
    file = GrowingFile(tmp_path / "local")
    file.path.write_bytes(b"abc")
    assert file.size == 3
    file.path.unlink()
    assert file.size == 0


def test_a_file_that_is_given_up_ends_for_its_reader(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "local")
    file.path.write_bytes(b"abc")
    chunks = file.chunks()
    assert next(chunks) == b"abc"
    file.give_up()
    with pytest.raises(GivenUpError):
        next(chunks)
    with pytest.raises(GivenUpError):
        file.wait()


@pytest.mark.parametrize(
    "fault", [Fault.NONE, Fault.THROTTLED, Fault.FAILED_AFTER, Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.CUT_IN_ANSWER]
)
def test_an_upload_that_fails_halfway_is_repeated_while_the_file_grows(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    data = data_of(4 * PART)
    with fault_proxy(s3.port, once(fault, "PUT", "partNumber=1")) as proxy:
        for name, value in environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        store, local = ObjectStore(s3.new_bucket()), tmp_path / "local"
        with Uploads() as uploads:
            local.write_bytes(data[: 3 * PART])
            upload = uploads.begin(store, local, "a")
            wait_until(lambda: any("partNumber=1" in request.path for request, _ in proxy.met), "the first part")
            with local.open("ab") as file:
                file.write(data[3 * PART :])
            upload.end()
            stored = upload.stored()
        assert stored == Stored(len(data), checksum_of([data]))
        assert store.get("a") == data
        assert proxy.faults_met() == {fault} - {Fault.NONE}


def test_a_file_that_outgrows_the_parts_of_one_upload_is_stored_at_its_end(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_objects, "_PARTS_MAX", 3)
    for name, value in environment(s3.url).items():
        monkeypatch.setenv(name, value)
    store, data = ObjectStore(s3.new_bucket()), data_of(5 * PART)
    with Uploads() as uploads:
        assert written(uploads, store, tmp_path / "local", "a", [data[: 4 * PART], data[4 * PART :]]).bytes == len(data)
    assert store.get("a") == data


def test_a_store_that_fails_is_told_when_the_task_asks_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    (tmp_path / "local").write_bytes(b"abc")
    with Uploads() as uploads, pytest.raises(RetryableError, match="File exists"):
        uploads.put(ObjectStore(tmp_path / "store"), tmp_path / "local", "a").stored()
