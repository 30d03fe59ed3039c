"""Workers and the one that supervises them: what they are told, what they give, and what happens if they fail."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from mixedmode.errors import RetryableError
from mixedmode_bench.supervisor import LIMITS, Worker
from mixedmode_bench.worker import TaskNote
from tests.bench.toys import TINY, WORKLOAD, workers_left


@pytest.fixture
def note(tmp_path: Path) -> TaskNote:
    tables, work = tmp_path / "tables", tmp_path / "work"
    tables.mkdir()
    work.mkdir()
    TINY.write(tables, TINY.size)
    return TaskNote(WORKLOAD, TINY.size, tables, work)


def worker(name: str, tmp_path: Path, *, run_limit_s: float = 60) -> Worker:
    return Worker(f"tests.bench.toys:{name}", tmp_path / "scratch", cores=1, limits={**LIMITS, "run": run_limit_s})


def below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def test_a_worker_does_what_it_is_told_and_may_print_what_it_likes(note: TaskNote, tmp_path: Path) -> None:
    with worker("Plain", tmp_path) as plain:
        plain.start()
        plain.prepare(note)
        outcome = plain.run(note)
        plain.answer(note, tmp_path / "answer.parquet")
        plain.close()
    assert (outcome.seconds, outcome.parts, outcome.epochs[0].events) == (0.5, {"read": 0.25}, 100)
    assert pq.read_table(tmp_path / "answer.parquet").num_rows == TINY.size.keys
    assert (tmp_path / "scratch" / "log.txt").read_text() == "started\nfreed\nclosed\n"
    assert not psutil.pid_exists(plain.pid)


def test_a_run_that_fails_is_told_with_its_error_and_its_log(note: TaskNote, tmp_path: Path) -> None:
    with worker("Raises", tmp_path) as raises:
        raises.start()
        with pytest.raises(RetryableError, match=r"Raises failed at `run`: ValueError: no run of tiny\.") as caught:
            raises.run(note)
        assert "  | ValueError: no run of tiny" in str(caught.value).splitlines()


def test_a_worker_that_dies_in_the_middle_is_told_with_what_it_printed_last(note: TaskNote, tmp_path: Path) -> None:
    with worker("Dies", tmp_path) as dies:
        dies.start()
        with pytest.raises(RetryableError) as caught:
            dies.run(note)
    assert str(caught.value) == (
        "the process of tests.bench.toys:Dies ended in `run`, with exit code 3. The benchmark ends here. "
        "The last that it printed:\n  | started\n  | out of luck"
    )


def test_a_worker_that_cannot_begin_is_told(tmp_path: Path) -> None:
    with worker("Nobody", tmp_path) as nobody, pytest.raises(RetryableError, match="has no attribute 'Nobody'"):
        nobody.start()


def test_a_worker_that_hangs_is_ended_with_all_that_it_started(note: TaskNote, tmp_path: Path) -> None:
    with worker("Hangs", tmp_path, run_limit_s=0.5) as hangs:
        hangs.start()
        with pytest.raises(RetryableError, match=r"Hangs was not done with `run` after 0\.5 s, and was ended"):
            hangs.run(note)
        (child,) = below(hangs.pid)
        assert os.getpgid(child.pid) != os.getpgid(hangs.pid)
    assert not psutil.pid_exists(hangs.pid)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_an_error_of_the_one_that_measures_ends_the_worker(tmp_path: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), worker("Plain", tmp_path) as plain:
        plain.start()
        raise KeyboardInterrupt
    assert not psutil.pid_exists(plain.pid)


def test_temporary_files_of_java_are_the_workers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xss2m")
    with worker("TellsJava", tmp_path) as tells:
        tells.start()
    scratch = tmp_path / "scratch"
    assert (scratch / "log.txt").read_text().startswith(f'-Xss2m "-Djava.io.tmpdir={scratch / "tmp"}"\n')


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert workers_left() == []
