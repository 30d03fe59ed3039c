"""A whole run, with contestants of a few lines: what is measured, what is checked, and what is left behind."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.errors import InternalError, InvalidJobError, RetryableError
from mixedmode_bench.document import read_document, write_document
from mixedmode_bench.plan import Options
from mixedmode_bench.results import Document, Entry
from mixedmode_bench.run import Place, run_benchmark
from tests.bench.toys import WORKLOAD, workers_left


def toys(*names: str) -> tuple[str, ...]:
    return tuple(f"tests.bench.toys:{name}" for name in names)


def asked(*names: str, rounds: int = 1) -> Options:
    return Options(workloads=(WORKLOAD,), modes=(), peers=toys(*names), rounds=rounds)


class Desk:
    """Keeps what a run says and writes."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.result = folder / "result.json"
        self.place = Place(folder / "data", self.said.append, lambda document: write_document(document, self.result))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yield Desk(tmp_path)
    assert not list(scratch.iterdir()), "a run removes what it wrote"
    assert not workers_left(), "a run ends its processes"


def seconds_by_round(entry: Entry) -> list[tuple[int, float]]:
    return [(run.round, run.outcome.seconds) for run in entry.runs]


def test_contestants_take_turns_over_the_same_data(desk: Desk) -> None:
    document = run_benchmark(asked("Plain", "Part"), desk.place)
    (measured,) = document.measured
    part, plain = measured.entries
    assert (measured.workload, measured.events, measured.keys, measured.is_full) == ("tiny", 100, 7, True)
    assert measured.input_bytes > 0
    assert (part.events, plain.events) == (50, 100)
    assert seconds_by_round(part) == seconds_by_round(plain) == [(0, 0.5), (1, 0.5)]
    assert plain.title == "pyarrow, in one process"
    assert not plain.is_ours
    assert plain.runs[1].peak_bytes["driver"] > 10 * 2**20
    order = [line.split()[-5].removeprefix("tests.bench.toys:") for line in desk.said if "events/s" in line]
    assert order == ["Part", "Plain", "Plain", "Part"]


@pytest.mark.parametrize(("whole_max_s", "events"), [(30.0, 100), (0.4, 10)], ids=["fast", "slow"])
def test_before_each_warm_run_there_is_one_that_is_not_measured_and_is_small_for_who_is_slow(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, whole_max_s: float, events: int
) -> None:
    monkeypatch.setattr("mixedmode_bench.run._WARM_UP_EVENTS_MIN", 10)
    monkeypatch.setattr("mixedmode_bench.run._WARM_UP_WHOLE_MAX_S", whole_max_s)
    (measured,) = run_benchmark(asked("Remembers", rounds=2), desk.place).measured
    (entry,) = measured.entries
    assert [run.outcome.parts["events before"] for run in entry.runs] == [0, events, events]


def test_what_was_found_is_on_disk_after_each_workload(desk: Desk) -> None:
    saved: list[Document] = []
    place = replace(desk.place, save=saved.append)
    options = replace(asked("Plain"), workloads=(WORKLOAD, WORKLOAD))
    document = run_benchmark(options, place)
    assert [len(each.measured) for each in saved] == [1, 2]
    assert saved[-1] == document
    assert document.machine.versions["python"]


def test_the_result_is_what_the_file_holds(desk: Desk) -> None:
    assert run_benchmark(asked("Plain"), desk.place) == read_document(desk.result)


def test_another_size_is_not_the_one_of_the_targets(desk: Desk) -> None:
    (measured,) = run_benchmark(replace(asked("Plain"), events=20), desk.place).measured
    assert (measured.events, measured.keys, measured.is_full) == (20, 1, False)


def test_the_sizes_of_scaling_share_their_processes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = {"SCALED": WORKLOAD, "SCALING_EVENTS": (20, 40), "SCALING_KEYS": (2, 4)}
    for name, value in {**scaled, "SCALING_CONTESTANTS": toys("Plain")}.items():
        monkeypatch.setattr(f"mixedmode_bench.plan.{name}", value)
    document = run_benchmark(replace(asked("Plain", "Part"), workloads=("scaling",)), desk.place)
    found = [(m.workload, m.events, m.keys, [run.round for run in m.entries[0].runs]) for m in document.measured]
    assert found == [("scaling", 40, 2, [0, 1]), ("scaling", 40, 4, [1]), ("scaling", 20, 4, [1])]
    assert all(len(measured.entries) == 1 for measured in document.measured)
    assert len([line for line in desk.said if "started" in line]) == 1


def test_a_wrong_answer_ends_it(desk: Desk) -> None:
    with pytest.raises(InternalError, match=r"wrong answer: 1 row other(.|\n)*contestant=tests\.bench\.toys:Wrong"):
        run_benchmark(asked("Plain", "Wrong"), desk.place)
    assert not desk.result.exists()


def test_a_worker_that_dies_ends_it(desk: Desk) -> None:
    with pytest.raises(RetryableError, match="Dies ended in `run`, with exit code 3"):
        run_benchmark(asked("Dies", "Plain"), desk.place)


def test_a_worker_that_hangs_ends_it(desk: Desk) -> None:
    with pytest.raises(RetryableError, match="Hangs was not done with `run`"):
        run_benchmark(asked("Hangs"), replace(desk.place, limits={**desk.place.limits, "run": 0.2}))


def test_what_stops_it_leaves_nothing_behind(desk: Desk) -> None:
    def say(text: str) -> None:
        if "cold" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_benchmark(asked("Plain"), replace(desk.place, say=say))


def test_one_that_is_missing_and_was_named_is_an_error(desk: Desk) -> None:
    with pytest.raises(InvalidJobError, match="it lacks the package nothing: pip install nothing"):
        run_benchmark(asked("Missing"), desk.place)


def test_one_that_is_missing_and_was_not_named_is_left_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = dict(zip(("mixed", "duckdb"), toys("Plain", "Missing"), strict=True))
    monkeypatch.setattr("mixedmode_bench.contestants.CONTESTANTS", registry)
    monkeypatch.setattr("mixedmode_bench.plan.CONTESTANTS", registry)
    monkeypatch.setattr("mixedmode_bench.plan.PEERS", ("duckdb",))
    options = replace(asked(), modes=toys("Plain"), peers=None)
    (measured,) = run_benchmark(options, desk.place).measured
    assert measured.left_out == {"duckdb": "the package nothing: pip install nothing"}
    assert desk.said[0] == "left out: duckdb, which lacks the package nothing: pip install nothing"


def test_where_nobody_can_compute_it_is_told(desk: Desk) -> None:
    with pytest.raises(InvalidJobError, match=r"none of the contestants can compute what was asked for.*TINY.*Unable"):
        run_benchmark(asked("Unable"), desk.place)
    assert desk.said[-1] == "  left out, as none of the contestants can compute it"
