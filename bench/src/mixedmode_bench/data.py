"""The data of the workloads, written once and kept for later runs.

    <root>/<name>-<events>-<keys>-v<version>/tables/<table>/*.parquet    or *.json
                                            /feed/*.parquet
                                            /data.json                  the order of the feed, and the bytes
    <root>/<name>-<events>-<keys>-v<version>.lock                       held by the one that writes

The name is the workload's, or that of the data which it shares with others.
A folder appears under its name when it is whole, by a rename, so what is there can be read.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mixedmode.errors import RetryableError
from mixedmode.user_folders import cache_folder
from mixedmode_bench.workload import Size, Workload


@dataclass(frozen=True, slots=True)
class Data:
    """The files of a benchmark. `tables` has a folder per table; `waiting` are the files of the feed in their order."""

    tables: Path
    waiting: tuple[Path, ...]
    input_bytes: int
    is_new: bool


class _Note(msgspec.Struct):
    waiting: list[str]
    input_bytes: int


def default_root() -> Path:
    """In the cache folder, where data that can be made again belong."""
    return cache_folder() / "bench"


def data_for(workload: Workload, size: Size, root: Path) -> Data:
    """Those of an earlier run, or new ones.  Raises RetryableError if they cannot be written."""
    folder = root / f"{workload.data or workload.name}-{size.events}-{size.keys}-v{workload.version}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f"{folder.name}.lock")):
            is_new = not folder.exists()
            if is_new:
                _write(workload, size, folder)
    except OSError as error:
        msg = (
            f"the data of the benchmark cannot be written: {error.strerror}. Name another folder with --data, or make "
            f"room. workload={workload.name}, folder={folder}"
        )
        raise RetryableError(msg) from error
    note = msgspec.json.decode((folder / "data.json").read_bytes(), type=_Note)
    return Data(folder / "tables", tuple(folder / "feed" / name for name in note.waiting), note.input_bytes, is_new)


def _write(workload: Workload, size: Size, folder: Path) -> None:
    half = folder.with_name(f".{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)  # of a run that was stopped; no other one has the lock
    try:
        tables, feed = half / "tables", half / "feed"
        tables.mkdir(parents=True)
        workload.write(tables, size)
        waiting: list[str] = []
        if workload.feed is not None:
            feed.mkdir()
            waiting = [str(file.relative_to(feed)) for file in workload.feed(feed, size)]
        input_bytes = sum(file.stat().st_size for file in half.rglob("*.*") if file.is_file())
        (half / "data.json").write_bytes(msgspec.json.encode(_Note(waiting, input_bytes)))
        half.rename(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One process at a time; the system lets the lock go when its holder dies."""
    with file.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
