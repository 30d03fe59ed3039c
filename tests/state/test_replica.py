"""Replicas hold exactly the wanted runs, whatever happened to them before, and leave committed files alone."""

import errno
import fcntl
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixedmode.checkpoint.private_folder import try_lock
from mixedmode.errors import CorruptStateError, RetryableError
from mixedmode.keys import KeyGroupRange
from mixedmode.state.rocksdb import open_replica
from mixedmode.state.rocksdb import replica as replica_module
from mixedmode.state.rocksdb.options import BLOOM_BITS_PER_KEY
from mixedmode.state.rocksdb.replica import WantedRun, missing_runs, reading, replica_name
from mixedmode.system_errors import system_words
from tests.checkpoint.folders import How
from tests.checkpoint.folders import damage as damage_file
from tests.random_cases import random_cases
from tests.state.runs import Entries, contents, laid_over, run_entries, wanted_runs, write_run

RUNS: list[dict[bytes, bytes | None]] = [
    {b"a": b"1", b"b": b"1", b"c": b"1"},
    {b"b": b"2", b"d": b"2"},
    {b"a": None, b"c": b"3"},
]


def note(folder: Path) -> object:
    """Return the runs of the note, and whether it is pending."""
    found = json.loads((folder / "ingested.json").read_text())
    return {name: found[name] for name in ("runs", "pending")}


def never(_: Path) -> None:
    pytest.fail("a run that the replica holds is not fetched again")


def held(runs: list[WantedRun]) -> list[WantedRun]:
    """The same runs, which the replica is expected to have."""
    return [WantedRun(run.name, never, run.merged_from) for run in runs]


@settings(max_examples=random_cases(10))
@given(runs=st.lists(run_entries(), max_size=5), steps=st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_an_open_replica_holds_the_wanted_runs_the_later_over_the_earlier(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Entries], steps: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("replica")
    wanted = wanted_runs(folder / "committed", runs)
    for step in steps:  # forwards, and backwards as when a job goes back to an older checkpoint
        count = min(step, len(runs))
        with open_replica(folder / "r", wanted[:count], attempt="a") as replica:
            assert contents(replica) == laid_over(runs[:count])


def test_only_runs_that_it_lacks_are_fetched(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted[:2], attempt="a").close()
    with open_replica(tmp_path / "r", [*held(wanted[:2]), wanted[2]], attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS)
    assert note(tmp_path / "r") == {"runs": ["run-0", "run-1", "run-2"], "pending": False}


def test_a_replica_that_is_opened_again_has_its_cache_and_reads_the_bloom_filters(tmp_path: Path) -> None:
    keys, cache_bytes = 50_000, 1 << 20
    wanted = wanted_runs(tmp_path, [{number.to_bytes(4, "big"): b"" for number in range(keys)}])
    for runs in (wanted, held(wanted)):
        with open_replica(tmp_path / "r", runs, attempt="a", cache_bytes=cache_bytes) as replica:
            assert replica.database.property_int_value("rocksdb.block-cache-capacity") == cache_bytes
            in_memory = replica.database.property_int_value("rocksdb.estimate-table-readers-mem")
            assert in_memory is not None
            assert in_memory > keys * BLOOM_BITS_PER_KEY / 8


@pytest.mark.parametrize("names", [["run-1", "run-2"], ["run-0", "run-2"], ["run-1", "run-0"], []])
def test_a_replica_of_other_runs_is_built_anew(tmp_path: Path, names: list[str]) -> None:
    wanted = {run.name: run for run in wanted_runs(tmp_path, RUNS)}
    open_replica(tmp_path / "r", [wanted["run-0"], wanted["run-1"]], attempt="a").close()
    with open_replica(tmp_path / "r", [wanted[name] for name in names], attempt="a") as replica:
        assert contents(replica) == laid_over([RUNS[int(name[-1])] for name in names])


def test_committed_files_are_never_changed(tmp_path: Path) -> None:
    runs = [{bytes([key]): bytes([number]) for key in range(number, 40)} for number in range(12)]
    wanted = wanted_runs(tmp_path / "committed", runs)
    files = sorted((tmp_path / "committed").rglob("*.sst"))
    before = [hashlib.sha256(path.read_bytes()).digest() for path in files]
    for count in (1, 7, 12, 3, 12):  # ingested, compacted, thrown away
        with open_replica(tmp_path / "r", wanted[:count], attempt="a") as replica:
            replica.database.compact_range(None, None)
            assert contents(replica) == laid_over(runs[:count])
    shutil.rmtree(tmp_path / "r")
    assert [hashlib.sha256(path.read_bytes()).digest() for path in files] == before
    assert all(path.stat().st_nlink == 1 for path in files), "no other name of them stays behind"


# --- merged runs -----------------------------------------------------------------------------------------------------


def test_a_run_merged_from_runs_that_it_holds_counts_as_held(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted[:2], attempt="a").close()
    merged = WantedRun("merged", never, ("run-0", "run-1"))
    with open_replica(tmp_path / "r", [merged, wanted[2]], attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS)
    assert note(tmp_path / "r") == {"runs": ["merged", "run-2"], "pending": False}
    again = WantedRun("merged-again", never, ("merged", "run-2"))
    with open_replica(tmp_path / "r", [again], attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS)
    assert note(tmp_path / "r") == {"runs": ["merged-again"], "pending": False}, "noted, although nothing was missing"


@pytest.mark.parametrize(
    ("ingested", "wanted", "missing"),
    [
        ("", "", ""),
        ("", "a0", "a0"),
        ("a0", "a0 a1", "a1"),
        ("a0 a1", "a0 a1", ""),
        ("a0 a1", "a0", None),
        ("a0", "a1", None),
        ("a0 a1 a2", "am=a0+a1 a2", ""),
        ("a0 a1 a2", "a0 am=a1+a2 a3", "a3"),
        ("a0 a1", "am=a0+a1+a2", None),
        ("a0 a1", "am=a1+a0", None),
        ("am", "am=a0+a1", ""),
        ("a0 a1 a2 a3", "am=a0+a1 an=a2+a3 a4", "a4"),
        ("x0 a0 a1", "am=a0+a1", None),
        # of two states
        ("a0 b0 a1 b1", "b0 am=a0+a1 b1", ""),
        ("a0 b0 a1 b1", "am=a0+a1 bm=b0+b1 a2 b2", "a2 b2"),
        ("a0 b0 a1 b1", "b0 am=a0+a1 b1 a2", "a2"),
        ("a0 a1", "a0 b0 a1 b1", "b0 b1"),
        ("a0 b0", "b0 a0", ""),
        ("b0", "a0 b0 a1", "a0 a1"),
        ("a0 b0 b1", "bm=b0+b1 am=a0+a1", None),
        ("a0 b0 a1", "a1 b0", None),
        ("a1 a0 b0", "a0 b0 a1", None),
        ("a1 b0", "a0 b0 a1", None),
    ],
)
def test_which_wanted_runs_are_missing(ingested: str, wanted: str, missing: str | None) -> None:
    runs = []
    for text in wanted.split():
        name, _, parts = text.partition("=")
        runs.append(WantedRun(name, never, tuple(parts.split("+")) if parts else (), state_id=ord(name[0])))
    found = missing_runs(ingested.split(), runs)
    assert (None if found is None else [run.name for run in found]) == (None if missing is None else missing.split())


# --- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash_at", [0, 1, 2])
@pytest.mark.parametrize("already", [0, 1])
def test_a_replica_of_a_process_killed_while_ingesting_is_built_anew(
    tmp_path: Path, crash_at: int, already: int
) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted[:already], attempt="a").close()

    def copy_then_fetch(run: WantedRun) -> Callable[[Path], None]:
        def fetch(target: Path) -> None:
            shutil.copytree(tmp_path / "r", tmp_path / "crashed")  # what a kill at this moment leaves on the disk
            run.fetch(target)

        return fetch

    at = max(crash_at, already)
    cut = [*wanted[:at], WantedRun(wanted[at].name, copy_then_fetch(wanted[at])), *wanted[at + 1 :]]
    open_replica(tmp_path / "r", cut, attempt="a").close()
    assert note(tmp_path / "crashed") == {"runs": [run.name for run in wanted[:already]], "pending": True}
    with open_replica(tmp_path / "crashed", wanted, attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS)


def test_a_fetch_that_fails_leaves_a_replica_that_can_be_opened_at_once(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted[:1], attempt="a").close()

    def damaged(_: Path) -> None:
        msg = "a committed run is damaged"
        raise CorruptStateError(msg)

    with pytest.raises(CorruptStateError, match=r"^a committed run is damaged$"):
        open_replica(tmp_path / "r", [*wanted[:2], WantedRun("run-2", damaged)], attempt="a")
    with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS)
    assert not (tmp_path / "r~a").exists(), "the lock was given back"


def test_a_process_that_is_really_killed_leaves_a_replica_that_is_completed(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from mixedmode.state.rocksdb import open_replica\n"
        "from mixedmode.state.rocksdb.replica import WantedRun\n"
        "folder = Path(sys.argv[1])\n"
        "def kill(_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "def fetch(to): os.link(folder / '0' / 'state-000.sst', to)\n"
        "open_replica(folder / 'r', [WantedRun('run-0', fetch), WantedRun('run-1', kill)], attempt='a')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS), "the lock of the dead is free, and its half-made copy is not used"


# --- damage and loss -------------------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[Path], object]] = {
    "the note is gone": lambda folder: (folder / "ingested.json").unlink(),
    "the note is empty": lambda folder: (folder / "ingested.json").write_text(""),
    "the database is gone": lambda folder: shutil.rmtree(folder / "db"),
    "CURRENT is gone": lambda folder: (folder / "db" / "CURRENT").unlink(),
    "a table is gone": lambda folder: min((folder / "db").glob("*.sst")).unlink(),
    "the manifest is damaged": lambda folder: next((folder / "db").glob("MANIFEST-*")).write_bytes(b"x" * 100),
    "the note says more than there is": lambda folder: (folder / "ingested.json").write_text(
        '{"runs": ["run-0", "run-1", "run-2"], "pending": true}'
    ),
    "a copy is left over": lambda folder: (folder / "incoming.sst").write_bytes(b"cut"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_replica_with_lost_or_damaged_files_is_built_anew(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted[:2], attempt="a").close()
    damage(tmp_path / "r")
    for _ in range(2):
        with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
            assert contents(replica) == laid_over(RUNS)


@pytest.mark.parametrize("pattern", ["MANIFEST-*", "CURRENT", "../ingested.json"])
@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_no_damage_of_a_list_of_files_hides_a_run(tmp_path: Path, pattern: str, how: How) -> None:
    """RocksDB opens a list that is cut between two entries without a word, and never returns for some flipped bits."""
    wanted = wanted_runs(tmp_path, RUNS)
    for count in (1, 2, 3):
        open_replica(tmp_path / "r", wanted[:count], attempt="a").close()
    bytes_ = next((tmp_path / "r" / "db").glob(pattern)).stat().st_size
    for at in range(0, bytes_, 5):
        (path,) = (tmp_path / "r" / "db").glob(pattern)
        damage_file(path, how, where=at)
        with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
            assert contents(replica) == laid_over(RUNS), at


def test_a_process_that_is_killed_after_a_compaction_leaves_a_replica_that_is_used(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted, attempt="a").close()
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from mixedmode.state.rocksdb import open_replica\n"
        "from mixedmode.state.rocksdb.replica import WantedRun\n"
        "wanted = [WantedRun(f'run-{number}', lambda to: sys.exit('fetched')) for number in range(3)]\n"
        "open_replica(Path(sys.argv[1]), wanted, attempt='a').database.compact_range(None, None)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "r")], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    with open_replica(tmp_path / "r", held(wanted), attempt="a") as replica:
        assert contents(replica) == laid_over(RUNS)


def test_a_replica_that_cannot_be_read_says_so_and_is_built_anew_next_time(tmp_path: Path) -> None:
    run = write_run(tmp_path / "committed", {number.to_bytes(4, "big"): b"v" * 50 for number in range(5000)})
    wanted = [WantedRun("run-0", lambda target: Path(shutil.copyfile(run.path, target)).touch())]
    open_replica(tmp_path / "r", wanted, attempt="a").close()
    (table,) = (tmp_path / "r" / "db").glob("*.sst")
    table.write_bytes(b"\xff" * 4000 + table.read_bytes()[4000:])
    with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        with pytest.raises(RetryableError) as caught, reading(replica.database):
            replica.database.get([b"\x00\x00\x00\x01"])
        assert str(caught.value) == (
            "the local copy of the state cannot be read, because its files are damaged or gone. The committed state is "
            "not affected. Check the disk, then start the job again: it makes a new copy and resumes from its last "
            f"checkpoint. folder={tmp_path / 'r'}"
        )
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
        assert len(contents(replica)) == 5000


@pytest.mark.parametrize("at", [0.1, 0.5, 0.7])
def test_a_damaged_table_that_a_compaction_reads_is_no_error_and_the_replica_is_built_anew(
    tmp_path: Path, at: float
) -> None:
    """RocksDB tells it where it likes: at the next run that is ingested, at the end of the epoch, or an epoch later."""
    runs = [{(30 * key + number).to_bytes(4, "big"): b"v" * 40 for key in range(500)} for number in range(30)]
    files = [write_run(tmp_path / f"{number}", run).path for number, run in enumerate(runs)]
    wanted = [WantedRun(f"run-{number}", partial(shutil.copyfile, path)) for number, path in enumerate(files)]
    for first, then in ((2, 9), (4, 30), (7, 8)):
        open_replica(tmp_path / "r", wanted[:first], attempt="a").close()
        table = min((tmp_path / "r" / "db").glob("*.sst"))
        damage_file(table, "flipped", where=int(at * table.stat().st_size))
        for count in range(first + 1, then + 1):
            open_replica(tmp_path / "r", wanted[:count], attempt="a").close()
        with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
            assert contents(replica) == laid_over(runs)
        shutil.rmtree(tmp_path / "r")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EFBIG])
def test_a_disk_that_does_not_take_the_replica_is_retryable(tmp_path: Path, number: int) -> None:
    def fetch(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(RetryableError) as caught:
        open_replica(tmp_path / "r", [WantedRun("run-0", fetch)], attempt="a")
    why, how = system_words(OSError(number, "")) or ("", "")
    assert str(caught.value) == (
        f"the local copy of the state cannot be written to the folder for temporary files: {why}. Nothing is "
        f"committed. {how}, or set TMPDIR to another disk; then start again; a job resumes from its last checkpoint. "
        f"folder={tmp_path / 'r'}, cause=[Errno {number}] {os.strerror(number)}"
    )


def test_a_place_where_no_replica_can_be_is_retryable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RetryableError, match=r"^the local copy of the state cannot be written to "):
        open_replica(tmp_path / "file" / "r", [], attempt="a")


# --- two at once -----------------------------------------------------------------------------------------------------


def test_a_second_attempt_gets_a_replica_of_its_own_which_goes_with_it(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    with open_replica(tmp_path / "r", wanted[:1], attempt="a") as first:
        with open_replica(tmp_path / "r", wanted, attempt="b") as second:
            assert contents(second) == laid_over(RUNS)
            assert contents(first) == laid_over(RUNS[:1]), "the first is not disturbed"
            assert (tmp_path / "r~b").is_dir()
        assert not (tmp_path / "r~b").exists()
    open_replica(tmp_path / "r", held(wanted[:1]), attempt="c").close()


def test_what_a_dead_process_left_of_a_temporary_replica_is_removed(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from mixedmode.state.rocksdb import open_replica\n"
        "replica = open_replica(Path(sys.argv[1]), [], attempt='b')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    with open_replica(tmp_path / "r", wanted[:1], attempt="a") as first:
        done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])
        assert done.returncode == -9
        assert (tmp_path / "r~b" / "db").is_dir()
        with open_replica(tmp_path / "r", wanted, attempt="c") as second:
            assert not (tmp_path / "r~b").exists()
            assert contents(second) == laid_over(RUNS)
        assert contents(first) == laid_over(RUNS[:1])


@pytest.mark.parametrize("has_lock", [True, False], ids=["whole", "half removed"])
def test_a_temporary_replica_that_nobody_holds_is_removed_and_others_are_not(tmp_path: Path, has_lock: bool) -> None:
    names = ["r~dead", "r~held", "r", "r-b", "r2~dead", "r-0-64", "q~dead"]
    for name in names:
        (tmp_path / name / "db").mkdir(parents=True)
        if has_lock:
            (tmp_path / name / "lock").touch()
    with (tmp_path / "r~held" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        open_replica(tmp_path / "r", [], attempt="a").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(set(names) - {"r~dead"})


def test_a_temporary_replica_that_is_taken_for_abandoned_as_it_begins_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    removed: list[str] = []

    def removed_before_it_is_locked(lock: IO[str]) -> bool:
        if Path(lock.name).parent.name == "r~b" and not removed:
            shutil.rmtree(tmp_path / "r~b")
            removed.append(lock.name)
        return try_lock(lock)

    with open_replica(tmp_path / "r", [], attempt="a"):
        monkeypatch.setattr(replica_module, "try_lock", removed_before_it_is_locked)
        with open_replica(tmp_path / "r", wanted, attempt="b") as replica:
            assert contents(replica) == laid_over(RUNS)
            with (tmp_path / "r~b" / "lock").open("w") as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert removed, "it was removed once"
    assert not (tmp_path / "r~b").exists()


def test_a_temporary_replica_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    def damaged(_: Path) -> None:
        msg = "a committed run is damaged"
        raise CorruptStateError(msg)

    with open_replica(tmp_path / "r", [], attempt="a"):
        with pytest.raises(CorruptStateError, match=r"^a committed run is damaged$"):
            open_replica(tmp_path / "r", [WantedRun("run-0", damaged)], attempt="b")
        assert not (tmp_path / "r~b").exists()


def test_a_replica_that_another_process_holds_is_not_touched(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    open_replica(tmp_path / "r", wanted[:1], attempt="a").close()
    code = (
        "import fcntl, sys\n"
        "lock = open(sys.argv[1], 'w')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r" / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with open_replica(tmp_path / "r", wanted, attempt="b") as replica:
            assert contents(replica) == laid_over(RUNS)
        assert note(tmp_path / "r") == {"runs": ["run-0"], "pending": False}
        other.communicate("")
    open_replica(tmp_path / "r", held(wanted[:1]), attempt="c").close()


def test_a_closed_replica_gives_its_lock_back(tmp_path: Path) -> None:
    open_replica(tmp_path / "r", [], attempt="a").close()
    with (tmp_path / "r" / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.fail("somebody holds the lock")


# --- other key groups ------------------------------------------------------------------------------------------------


def test_replicas_of_a_former_parallelism_go_unless_somebody_holds_them(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    operator = ["agg-1-0-64", "agg-1-64-128", "agg-1-0-128~dead", "agg-1-32-40"]
    others = ["agg-1-128-256", "agg-10-0-128", "agg-0-128", "agg-1-0-x", "agg-1", "agg-1-1-0-128"]
    for name in [*operator, *others]:
        open_replica(tmp_path / "r" / name, wanted, attempt="a").close()
    with open_replica(tmp_path / "r" / "agg-1-32-40", held(wanted), attempt="a"):
        own = tmp_path / "r" / replica_name("agg-1", KeyGroupRange(0, 128))
        with open_replica(own, wanted, attempt="b") as replica:
            assert contents(replica) == laid_over(RUNS)
    left = sorted(path.name for path in (tmp_path / "r").iterdir())
    assert left == sorted(["agg-1-0-128", "agg-1-32-40", *others])
    open_replica(own, held(wanted), attempt="c").close()
    assert not (tmp_path / "r" / "agg-1-32-40").exists(), "nobody holds it any more"


def test_a_run_without_entries_is_held_all_the_same(tmp_path: Path) -> None:
    wanted = wanted_runs(tmp_path, RUNS)
    wanted[1] = WantedRun("empty", lambda _: None)
    for _ in range(2):
        with open_replica(tmp_path / "r", wanted, attempt="a") as replica:
            assert contents(replica) == laid_over([RUNS[0], RUNS[2]])
        wanted = held(wanted)
    assert note(tmp_path / "r") == {"runs": ["run-0", "empty", "run-2"], "pending": False}
