"""Folders that only their owner may enter, whatever somebody else has put under their names."""

import os
import stat
from pathlib import Path

import pytest

from mixedmode.checkpoint.local_files import LocalFiles
from mixedmode.checkpoint.private_folder import is_private, keep_private, private_subfolder
from mixedmode.errors import InvalidJobError, RetryableError


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_missing_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = private_subfolder(tmp_path, "mine")
    assert folder == tmp_path / "mine"
    assert mode(folder) == 0o700
    assert private_subfolder(tmp_path, "mine") == folder, "the next one goes on with it"


def test_a_folder_that_others_can_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(0o755)
    assert mode(private_subfolder(tmp_path, "mine")) == 0o700


@pytest.mark.parametrize("wide", [0o777, 0o770, 0o702])
def test_a_folder_that_others_could_write_to_is_refused(tmp_path: Path, wide: int) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(wide)
    with pytest.raises(InvalidJobError, match=f"not safe to use: other users can write to it, by its mode {wide:o}"):
        private_subfolder(tmp_path, "mine")


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(0o700)
    with pytest.raises(InvalidJobError, match=f"belongs to another user, with the id {os.getuid()}"):
        private_subfolder(tmp_path, "mine", uid=os.getuid() + 1)


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_link_is_refused_and_what_it_leads_to_stays_as_it_is(tmp_path: Path, is_dangling: bool) -> None:
    target = tmp_path / "target"
    if not is_dangling:
        target.mkdir(0o755)
    (tmp_path / "mine").symlink_to(target)
    with pytest.raises(InvalidJobError, match=r"not safe to use: it is a link.*TMPDIR.*folder="):
        private_subfolder(tmp_path, "mine")
    assert target.exists() != is_dangling
    assert is_dangling or mode(target) == 0o755


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(InvalidJobError, match="not safe to use"):
        private_subfolder(tmp_path, "mine")


@pytest.mark.parametrize("before", [None, 0o777, 0o750, 0o700])
def test_a_checkpoint_folder_is_kept_for_its_owner(tmp_path: Path, before: int | None) -> None:
    folder = tmp_path / "above" / "checkpoints"
    if before is not None:
        folder.mkdir(parents=True)
        folder.chmod(before)
    keep_private(folder)
    assert mode(folder) == 0o700
    assert is_private(folder)
    assert mode(tmp_path / "above") == 0o777, "as the umask says"


def test_a_mode_that_cannot_be_changed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refuse)
    (tmp_path / "shared").mkdir(0o755)
    with pytest.raises(InvalidJobError, match=r"set execution\.checkpointing\.access to umask.*mode=755"):
        keep_private(tmp_path / "shared")


def put_in_every_way(root: Path, local: Path) -> set[int]:
    """The modes of the files that a store in `root` has of each way of writing."""
    store = LocalFiles(root)
    assert store.put_new("manifests/0", b"manifest")
    store.put("job.json", b"job")
    local.write_bytes(b"state")
    store.put_file(local, "state/0")
    store.put_file(local, "state/0")
    return {mode(file) for file in root.rglob("*") if file.is_file()}


def test_files_of_a_private_folder_are_private_and_others_follow_the_umask(tmp_path: Path) -> None:
    keep_private(tmp_path / "private")
    assert put_in_every_way(tmp_path / "private", tmp_path / "a") == {0o600}
    (tmp_path / "shared").mkdir()
    assert put_in_every_way(tmp_path / "shared", tmp_path / "b") == {0o666}


def test_a_file_that_is_linked_elsewhere_is_copied_so_that_its_other_name_keeps_its_mode(tmp_path: Path) -> None:
    keep_private(tmp_path / "private")
    (tmp_path / "a").write_bytes(b"state")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    LocalFiles(tmp_path / "private").put_file(tmp_path / "b", "state/0")
    assert mode(tmp_path / "private" / "state" / "0") == 0o600
    assert (tmp_path / "private" / "state" / "0").read_bytes() == b"state"
    assert mode(tmp_path / "a") == 0o666


def test_a_folder_that_cannot_be_made_is_named_as_a_whole() -> None:
    with pytest.raises(RetryableError, match=r"^a folder cannot be made: .* folder=/proc/self/mine$"):
        private_subfolder(Path("/proc/self"), "mine")
