"""A MANIFEST that is written here makes the same database of runs as ingesting them."""

import os
from functools import partial
from pathlib import Path

import pytest
from rocksdict import AccessType, Rdict

from mixedmode.state.rocksdb import RunWriter, open_replica
from mixedmode.state.rocksdb.manifest_file import run_path, write_manifest
from mixedmode.state.rocksdb.options import replica_options
from mixedmode.state.rocksdb.replica import WantedRun

GROUPS = (0, 1, 2**15 - 1)  # the least and the greatest


def the_runs(folder: Path, number: int) -> list[Path]:
    """Runs that override each other: run i has every key from the i-th of its key group on."""
    paths = []
    for run in range(number):
        keys = [group.to_bytes(2, "big") + bytes([255, key]) for group in GROUPS for key in range(run % 7, 9)]
        with RunWriter(folder / str(run)) as writer:
            writer.write(255, keys, [b"" if key[-1] == 8 else f"{run}".encode() + key for key in keys])
            paths += [Path(written.path) for written in writer.finish()]
    return paths


def opened(folder: Path) -> Rdict:
    options = replica_options()
    access = AccessType.read_only(False)
    return Rdict(str(folder), options, column_families={"default": options}, access_type=access)


@pytest.mark.parametrize("number", [1, 9, 900])  # a MANIFEST of 900 runs is longer than a block of its format
def test_the_database_is_that_of_ingested_runs(number: int, tmp_path: Path) -> None:
    runs = the_runs(tmp_path / "runs", min(number, 9)) * (number // min(number, 9))
    (tmp_path / "db").mkdir()
    for at, run in enumerate(runs):
        os.link(run, run_path(tmp_path / "db", at))
    write_manifest(tmp_path / "db", [run.stat().st_size for run in runs])
    if number == 900:
        assert (tmp_path / "db" / "MANIFEST-000001").stat().st_size > 32 * 1024
    database = opened(tmp_path / "db")
    wanted = [WantedRun(str(at), partial(os.link, run)) for at, run in enumerate(runs)]
    with open_replica(tmp_path / "replica", wanted, attempt="a", cache_bytes=0) as replica:
        expected = list(replica.database.items())
    assert len(expected) == 9 * len(GROUPS)
    assert list(database.items()) == expected
    assert database.get([key for key, _ in expected]) == [value for _, value in expected]
    database.close()


def test_a_run_of_another_size_than_its_entry_is_refused(tmp_path: Path) -> None:
    (run,) = the_runs(tmp_path / "runs", 1)
    (tmp_path / "db").mkdir()
    os.link(run, run_path(tmp_path / "db", 0))
    write_manifest(tmp_path / "db", [run.stat().st_size + 1])
    with pytest.raises(Exception, match="SST file"):
        opened(tmp_path / "db")
