"""One suite for every kind of store, and what folders promise beyond it."""

import errno
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from obstore import exceptions

from mixedmode.checkpoint.checksum import checksum_of, file_checksum
from mixedmode.checkpoint.remote_objects import RETRY_SECONDS
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import InvalidJobError, RetryableError
from tests.s3 import S3Server, environment

SERIAL = itertools.count()


@pytest.fixture(params=["folder", "file-url", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        for name, value in environment(server.url).items():
            monkeypatch.setenv(name, value)
        return ObjectStore(f"{server.new_bucket()}/a b/deep")
    places = {
        "folder": str(tmp_path / "a b%20#c" / "deep"),
        "file-url": (tmp_path / "a b").as_uri(),
        "memory": f"memory:///store-{next(SERIAL)}",
    }
    return ObjectStore(places[request.param])


@pytest.fixture
def folder(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path / "store")


def test_put_new_creates_an_object_once(store: ObjectStore) -> None:
    assert store.put_new("m/1.json", b"first")
    assert not store.put_new("m/1.json", b"second")
    assert store.get("m/1.json") == b"first", "the loser must not change anything"


def test_exactly_one_of_many_concurrent_creators_wins(store: ObjectStore) -> None:
    start = threading.Barrier(8)

    def create(number: int) -> bool:
        start.wait()
        return store.put_new("m/1.json", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert sum(won) == 1
    assert store.get("m/1.json") == str(won.index(True)).encode()


def test_put_replaces(store: ObjectStore) -> None:
    store.put("a", b"1")
    store.put("a", b"22")
    assert (store.get("a"), store.size("a")) == (b"22", 2)


def test_an_object_that_does_not_exist_is_none_everywhere(store: ObjectStore, tmp_path: Path) -> None:
    assert store.get("no/such") is None
    assert store.size("no/such") is None
    assert store.checksum("no/such") is None
    assert not store.exists("no/such")
    assert not store.fetch_file("no/such", tmp_path / "local")
    assert not (tmp_path / "local").exists()
    assert store.list("no") == []
    assert store.list() == []
    store.delete(["no/such"])


def test_a_listing_is_sorted_and_keeps_to_its_folder(store: ObjectStore) -> None:
    for path in ("runs/b/2", "runs/a/1", "runs2/x", "job.json"):
        store.put_new(path, path.encode())
    assert store.list("runs") == [("runs/a/1", 8), ("runs/b/2", 8)]
    assert store.list("runs/") == store.list("runs")
    assert [path for path, _ in store.list()] == ["job.json", "runs/a/1", "runs/b/2", "runs2/x"]


def test_deleting_twice_is_fine(store: ObjectStore) -> None:
    store.put("a", b"1")
    store.put("b", b"1")
    store.delete(["a", "no"])
    store.delete(["a"])
    store.delete([])
    assert store.list() == [("b", 1)]


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_file_comes_back_as_it_was(store: ObjectStore, tmp_path: Path, size: int) -> None:
    original = tmp_path / "original"
    original.write_bytes(os.urandom(size))
    store.put_file(original, "runs/x/1.sst")
    assert original.exists(), "the local file stays"
    assert store.size("runs/x/1.sst") == size
    assert store.fetch_file("runs/x/1.sst", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == original.read_bytes()
    assert store.checksum("runs/x/1.sst") == file_checksum(original)
    original.unlink()
    (tmp_path / "copy").unlink()
    assert store.size("runs/x/1.sst") == size, "local names may be deleted"


def test_put_file_replaces(store: ObjectStore, tmp_path: Path) -> None:
    for number in (b"1", b"22"):
        (tmp_path / "f").unlink(missing_ok=True)
        (tmp_path / "f").write_bytes(number)
        store.put_file(tmp_path / "f", "a")
    assert store.get("a") == b"22"


def test_rename_moves_once_and_then_finds_nothing(store: ObjectStore) -> None:
    store.put("_staging/1", b"x")
    assert store.rename("_staging/1", "part-1")
    assert not store.rename("_staging/1", "part-1")
    assert store.list() == [("part-1", 1)]


def test_rename_all_says_for_each_whether_it_was_there(store: ObjectStore) -> None:
    store.put("s/2", b"x")
    store.put("t/2", b"old")
    assert list(store.rename_all([("s/1", "t/1"), ("s/2", "t/2")])) == [False, True]
    assert store.list() == [("t/2", 1)]
    assert list(store.rename_all([])) == []


def test_a_store_is_its_url_and_can_be_pickled(store: ObjectStore) -> None:
    store.put_new("a", b"1")
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert again.get("a") == b"1"


def test_opening_reads_nothing_and_creates_nothing(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "absent")
    assert store.list() == []
    assert not (tmp_path / "absent").exists()


def test_a_relative_folder_is_the_same_for_a_task_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = ObjectStore("run/checkpoints")
    monkeypatch.chdir("/")
    store.put("a", b"1")
    assert (tmp_path / "run/checkpoints/a").read_bytes() == b"1"


def test_a_url_that_nobody_knows_is_a_fault_of_the_job_file() -> None:
    with pytest.raises(InvalidJobError) as caught:
        ObjectStore("hdfs://host/path").exists("a")
    assert str(caught.value) == (
        "the store cannot be opened: obstore does not accept its URL or settings. Use a folder, or a URL that starts "
        "with s3://, gs://, az:// or abfss://, in the job file. url=hdfs://host/path"
    )


def test_a_web_server_is_refused_because_it_cannot_create_once() -> None:
    with pytest.raises(InvalidJobError, match="cannot create an object exactly once"):
        ObjectStore("http://127.0.0.1:9/bucket").put_new("a", b"1")


def test_paths_do_not_leave_the_store(folder: ObjectStore) -> None:
    for path in ("../x", "/etc/x", "", "a/../../x"):
        with pytest.raises(AssertionError):
            folder.put(path, b"")


def test_a_file_of_the_same_disk_is_linked_and_not_copied(folder: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    folder.put_file(tmp_path / "f", "runs/1")
    folder.fetch_file("runs/1", tmp_path / "g")
    assert (tmp_path / "f").stat().st_ino == (tmp_path / "g").stat().st_ino


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.ENOTSUP])
def test_a_file_of_another_disk_is_copied(
    folder: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", failing(code))
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    folder.put_file(tmp_path / "f", "runs/1")
    folder.fetch_file("runs/1", tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == (tmp_path / "f").read_bytes()
    assert list((tmp_path / "store/_tmp").iterdir()) == [], "nothing unfinished stays"


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc which file is synced")
def test_what_is_written_is_synced_before_it_is_named_and_the_folder_after(
    folder: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_sync, real_link = os.fsync, os.link

    def sync(descriptor: int) -> None:
        steps.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path).parts[-1])
        real_sync(descriptor)

    def link(source: Path, target: Path) -> None:
        steps.append("link")
        real_link(source, target)

    folder.put("manifests/0", b"makes the folders")
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    assert folder.put_new("manifests/1", b"x")
    assert [steps[0][:5], *steps[1:]] == ["sync ", "link", "sync manifests"]
    steps.clear()
    (tmp_path / "f").write_bytes(b"x")
    folder.put_file(tmp_path / "f", "runs/s/1")
    assert steps == ["sync store", "sync runs", "sync f", "link", "sync s"], "new folders are synced into their parents"


def test_a_crash_while_writing_leaves_no_object(folder: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    for step in ("fsync", "link"):
        folder.put("warm/up", b"")
        with monkeypatch.context() as patch:
            patch.setattr(os, step, crash)
            with pytest.raises(Crash):
                folder.put_new("manifests/1", b"x")
        assert folder.list("manifests") == [], step
    assert folder.put_new("manifests/1", b"x")


def test_a_killed_writer_leaves_whole_objects_only(folder: ObjectStore) -> None:
    program = (
        "import itertools, sys; from mixedmode.checkpoint.store import ObjectStore; store = ObjectStore(sys.argv[1])\n"
        "for n in itertools.count(): store.put_new(f'm/{n}', b'x' * 2_000_000); print(n, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program, folder.url], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
    listed = dict(folder.list("m"))
    assert {f"m/{number}" for number in said} <= listed.keys(), "what was said to be written is there"
    assert set(listed.values()) == {2_000_000}, "no part of a file has a name"


def test_unfinished_files_are_swept_and_never_listed(folder: ObjectStore, tmp_path: Path) -> None:
    folder.sweep_unfinished()
    folder.put("a", b"1")
    (tmp_path / "store/_tmp/left-by-a-crash").write_bytes(b"half")
    assert folder.list() == [("a", 1)]
    folder.sweep_unfinished()
    assert list((tmp_path / "store/_tmp").iterdir()) == []
    assert folder.get("a") == b"1"


def test_a_writer_whose_unfinished_file_is_swept_writes_it_again(
    folder: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_link = os.link
    sweeps = iter([True, False])

    def link_after_sweep(source: Path, target: Path) -> None:
        if next(sweeps):
            folder.sweep_unfinished()
        real_link(source, target)

    monkeypatch.setattr(os, "link", link_after_sweep)
    assert folder.put_new("m/1", b"x")
    assert folder.get("m/1") == b"x"


def test_a_full_disk_is_explained_in_full(folder: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.put("a", b"1")
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(RetryableError) as caught:
        folder.put_new("m/1", b"x")
    assert str(caught.value) == (
        "cannot write an object of the checkpoint or of the output: no space is left on the disk. Free space, or "
        "delete files if `df -i` shows that no inode is free; or move the folder to a larger disk, then start again; "
        f"a job resumes. store={folder.url}, object=m/1"
    )
    assert isinstance(caught.value.__cause__, OSError)
    monkeypatch.undo()
    assert folder.list("m") == []


def test_a_file_that_cannot_be_fetched_is_named_as_its_disk_may_be_full(
    folder: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put("a", b"1")
    monkeypatch.setattr(os, "link", failing(errno.ENOSPC))
    with pytest.raises(RetryableError, match=rf"no space .* object=a, local_file={tmp_path}/copy$"):
        folder.fetch_file("a", tmp_path / "copy")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.EACCES, "permission was denied. Give this user read and write access"),
        (errno.EROFS, "the file system is read-only. Mount it for writing"),
        (errno.EIO, "a disk, or the server that has it, failed to read or write. Check both (see `dmesg`)"),
        (errno.EDQUOT, "the quota of this user is used up, though the disk may have space. Delete files of this user"),
        (errno.EFBIG, "a file would be larger than this process, or the file system, allows. Raise the limit"),
        (errno.ENXIO, "the system says 'No such device or address'. Repair the folder or the disk"),
        (errno.ENOTDIR, "there is a file where its folder should be. Name another folder, or remove the file"),
    ],
)
def test_other_failures_of_a_disk_are_retryable(
    folder: ObjectStore, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    monkeypatch.setattr(os, "fsync", failing(code))
    with pytest.raises(RetryableError) as caught:
        folder.put("a", b"1")
    assert says in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "Spark ships errors between processes"


def test_a_disk_without_hard_links_is_refused_by_name(folder: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(RetryableError, match="this filesystem has no hard links"):
        folder.put_new("a", b"1")


def test_a_folder_within_that_is_a_mount_of_its_own_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example manifests/, runs/, or a partition of an output. Also where both mounts are of one disk."""
    folder, mount = ObjectStore(tmp_path), tmp_path / "mount"
    local = tmp_path / "local"
    local.write_bytes(b"1")

    def between(call: Callable[..., object], source: Path, target: Path, **_: object) -> None:
        if (mount in Path(source).parents) != (mount in Path(target).parents):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source), None, str(target))
        call(source, target)

    for name in ("link", "rename", "replace"):
        monkeypatch.setattr(os, name, partial(between, getattr(os, name)))
    folder.put("staged", b"1")
    calls: list[Callable[[], object]] = [
        lambda: folder.put_new("mount/a", b"1"),
        lambda: folder.put("mount/a", b"1"),
        lambda: folder.put_file(local, "mount/a"),
        lambda: folder.rename("staged", "mount/a"),
    ]
    for call in calls:
        with pytest.raises(RetryableError) as caught:
            call()
        text = str(caught.value)
        assert "two places are on different file systems, or mounts" in text
        assert "no folder in it may be a mount of its own, or a link to another disk, then start again" in text
        assert text.endswith(f"store={folder.url}, object=mount/a")
    assert list(mount.iterdir()) == []


def test_a_file_where_a_folder_should_be_is_retryable(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(RetryableError, match="store="):
        ObjectStore(tmp_path / "f").put("a", b"1")


def answered(status: str, code: str = "") -> exceptions.GenericError:
    """Return obstore's error for an answer of S3; without a code, as HEAD is answered."""
    body = f"<Error><Code>{code}</Code><Message>m</Message></Error>" if code else ""
    return exceptions.GenericError(f"Error performing GET: Server returned non-2xx status code: {status}: {body}")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (exceptions.GenericError("connection refused"), "Check that the store can be reached (the cause is chained"),
        (exceptions.PermissionDeniedError("403"), "permission was denied. Give this user read and write access, or"),
        (exceptions.UnauthenticatedError("401"), "the credentials were not accepted. Renew the credentials"),
        (answered("400 Bad Request", "ExpiredToken"), "not accepted (400 Bad Request, ExpiredToken). Renew the cred"),
        (answered("403 Forbidden", "SignatureDoesNotMatch"), "the credentials were not accepted (403 Forbidden, Sig"),
        (answered("403 Forbidden", "RequestTimeTooSkewed"), "Set the clock (the store says RequestTimeTooSkewed)"),
        (answered("403 Forbidden", "AccessDenied"), "denied (403 Forbidden, AccessDenied). Give this user read and"),
        (answered("404 Not Found", "NoSuchBucket"), "the bucket or container does not exist. Create it"),
        (answered("400 Bad Request"), "answered '400 Bad Request'. Correct the URL, or the region, credentials and"),
        (answered("503 Service Unavailable", "SlowDown"), "'503 Service Unavailable', though it was asked"),
        (
            exceptions.GenericError("Received redirect without LOCATION, this normally indicates"),
            "the bucket is in another region, or elsewhere. Correct the URL, or the region",
        ),
    ],
)
def test_failures_of_an_object_store_are_retryable(
    monkeypatch: pytest.MonkeyPatch, error: exceptions.BaseError, says: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setenv(RETRY_SECONDS, "0")
    store = ObjectStore(f"memory:///failing-{next(SERIAL)}")
    monkeypatch.setattr("mixedmode.checkpoint.remote_objects.obstore.put", fail)
    with pytest.raises(RetryableError) as caught:
        store.put_new("a", b"1")
    assert says in str(caught.value)
    assert caught.value.__cause__ is error


def test_checksums_of_objects_are_those_of_their_bytes(store: ObjectStore) -> None:
    store.put("a", b"abc")
    assert store.checksum("a") == checksum_of([b"abc"])


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail
