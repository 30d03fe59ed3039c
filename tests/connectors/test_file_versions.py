"""Versions of files, without Spark: a frame is the list of its files, and a folder changes when it is looked at."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mixedmode.connectors.files.versions import changed_files, newest_version, version_name
from mixedmode.errors import RetryableError
from mixedmode.sources.versions import TableVersion
from mixedmode.spark.file_lengths import FileState

Files = dict[str, FileState]
ONE: Files = {"file:///c/0": (10, 1)}
TWO: Files = {**ONE, "file:///c/1": (20, 2)}


class Folder:
    """A folder. `moments`: its files at each look, in the end those of the last one."""

    def __init__(self, *moments: Files) -> None:
        self._moments = iter(moments)
        self._last: Files = {}
        self.checked = 0

    def look(self) -> Files:
        self._last = next(self._moments, self._last)
        return self._last

    def newest(self, before: TableVersion | None = None) -> TableVersion:
        rows: Callable[[], Any] = lambda: list(self.look())  # noqa: E731
        states: Callable[[Any], Files] = lambda frame: {  # noqa: E731
            url: state for url, state in self.look().items() if url in frame
        }
        return newest_version(rows, states, before, self._check, place="parquet /c")

    def _check(self, frame: Any) -> Any:
        self.checked += 1
        return frame


def test_a_version_has_the_files_that_exist_and_a_name() -> None:
    folder = Folder(TWO)
    version = folder.newest()
    assert (list(version.frame), version.changed()) == (list(TWO), None)  # type: ignore[call-overload]
    assert version.name == version_name(TWO)
    assert version.name.startswith("2 files, 30 bytes, ")
    assert version_name(ONE).startswith("1 file, 10 bytes, ")


def test_the_name_does_not_depend_on_the_order_and_differs_with_each_change() -> None:
    names = [version_name(one) for one in different()]
    assert len(set(names)) == len(names)
    assert version_name(dict(reversed(TWO.items()))) == version_name(TWO)


def different() -> Iterator[Files]:
    yield from (TWO, ONE, {})
    yield {**ONE, "file:///c/1": (21, 2)}
    yield {**ONE, "file:///c/1": (20, 3)}
    yield {**ONE, "file:///c/2": (20, 2)}


def test_files_that_are_the_same_as_before_are_not_checked_again() -> None:
    folder = Folder(ONE)
    before = folder.newest()
    assert folder.newest(before) is before
    assert folder.checked == 1


def test_a_folder_that_changes_while_it_is_listed_is_listed_again() -> None:
    version = Folder(ONE, ONE, TWO, TWO, TWO).newest()
    assert list(version.frame) == list(TWO)  # type: ignore[call-overload]


def test_a_folder_that_never_stays_the_same_is_an_error_with_what_to_do() -> None:
    always = [{"file:///c/0": (10, moment)} for moment in range(40)]
    expected = (
        "the files of a dimension change faster than they can be listed. Replace them less often, or put them into a "
        "Delta Lake or Iceberg table. place=parquet /c, changed=file:///c/0 was changed"
    )
    with pytest.raises(RetryableError) as caught:
        Folder(*always).newest()
    assert str(caught.value) == expected


def test_a_change_of_a_file_that_was_read_is_told_and_a_new_file_is_a_later_version() -> None:
    same = [TWO] * 4
    assert Folder(*same, {**ONE, "file:///c/1": (20, 9)}).newest().changed() == "file:///c/1 was changed"
    assert Folder(*same, ONE).newest().changed() == "file:///c/1 is gone"
    assert Folder(*same, {**TWO, "file:///c/2": (1, 1)}).newest().changed() is None
    assert changed_files(ONE, TWO) == "file:///c/1 was added"
