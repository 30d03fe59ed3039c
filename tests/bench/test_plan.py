"""The plan of a benchmark: names, sizes, and the command that asks for the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.errors import InvalidJobError
from mixedmode_bench.contestants import CONTESTANTS, MODES, PEERS, find_workload, make_contestant, workload_names
from mixedmode_bench.plan import SCALING, Options, checked, groups, resized
from mixedmode_bench.workload import Size, Workload
from tests.bench.toys import TINY, WORKLOAD, Plain

KNOWN = ("count-sum", "live", "word-count")
counts = st.integers(1, 10**9)


@given(counts, counts, st.none() | counts, st.none() | counts)
def test_keys_follow_events_unless_they_are_given(events: int, keys: int, new_events: int, new_keys: int) -> None:
    size = resized(Size(events, keys), new_events, new_keys)
    assert size.events == (new_events or events)
    assert size.keys == (new_keys or max(1, keys * size.events // events))


def test_targets_are_for_the_default_size() -> None:
    def is_full(options: Options) -> bool:
        ((point,),) = (group.points for group in groups(options))
        return point.is_full

    assert is_full(Options(workloads=("count-sum",)))
    assert is_full(Options(workloads=("count-sum",), events=10_000_000))
    assert not is_full(Options(workloads=("count-sum",), events=200_000))
    assert not is_full(Options(workloads=("count-sum",), keys=200_000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            Options(workloads=("wordcount",)),
            r"no workload of this name\. Did you mean word-count\? .*workload=wordcount",
        ),
        (Options(workloads=("xyz",)), r"no workload of this name\. `mixedmode bench --list` names all of them\."),
        (Options(modes=("mixd",)), r"no mode of this name\. Did you mean mixed\?"),
        (Options(modes=("duckdb",)), r"no mode of this name"),
        (Options(peers=("spark-steaming",)), r"no peer of this name\. Did you mean spark-streaming\?"),
        (Options(modes=(), peers=()), r"there is nobody to measure"),
        (Options(keys=0), r"have to be at least 1\. keys=0, rounds=3, cores=2"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(options: Options, message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        checked(options, KNOWN)


def test_all_is_every_workload_and_scaling_and_each_once() -> None:
    assert checked(Options(workloads=("live", "all")), KNOWN).workloads == (*KNOWN, SCALING)
    assert checked(Options(workloads=("live", "live")), KNOWN).workloads == ("live",)


def test_contestants_come_in_the_order_of_the_tables() -> None:
    assert Options().contestants == (*MODES, *PEERS)
    assert Options(modes=("batch", "mixed"), peers=("a:B", "duckdb")).contestants == ("mixed", "batch", "duckdb", "a:B")
    assert Options(modes=MODES).contestants == tuple(CONTESTANTS)


def test_only_those_that_were_named_have_to_be_there() -> None:
    assert Options().required == set(MODES)
    assert Options(modes=("mixed",), peers=("duckdb",)).required == {"mixed", "duckdb"}


def test_the_command_asks_for_the_same_and_says_no_more_than_it_must() -> None:
    assert Options().command == "mixedmode bench count-sum live"
    options = Options(("all",), events=10, keys=5, modes=(), peers=("duckdb", "flink-batch"), rounds=1, cores=4)
    assert options.command == (
        "mixedmode bench all --modes none --peers duckdb,flink-batch --events 10 --keys 5 --rounds 1 --cores 4"
    )


def test_scaling_grows_keys_and_events_in_shared_processes() -> None:
    (group,) = groups(Options(workloads=(SCALING,)))
    sizes = [(point.size.events, point.size.keys) for point in group.points]
    assert sizes == [
        *((10_000_000, keys) for keys in (10_000, 100_000, 1_000_000, 10_000_000)),
        (1_000_000, 1_000_000),
        (100_000_000, 1_000_000),
    ]
    assert group.rounds == 1
    assert set(group.only or ()) == {"mixed", "spark-batch", "duckdb"}
    assert not any(point.is_full for point in group.points)


def test_events_cap_scaling() -> None:
    (group,) = groups(Options(workloads=(SCALING,), events=1_000_000))
    sizes = [(point.size.events, point.size.keys) for point in group.points]
    assert sizes == [(1_000_000, keys) for keys in (10_000, 100_000, 1_000_000)]
    with pytest.raises(InvalidJobError, match=r"no size of scaling is as small as that.*events=5000, keys=10000000"):
        groups(Options(workloads=(SCALING,), events=5_000))


def test_every_contestant_and_every_workload_can_be_made() -> None:
    for name in CONTESTANTS:
        assert make_contestant(name).name == name
    for name in workload_names():
        assert find_workload(name).name == name


def test_ones_own_are_named_by_their_module() -> None:
    assert isinstance(make_contestant("tests.bench.toys:Plain"), Plain)
    found: Workload = find_workload(WORKLOAD)
    assert found is TINY
    with pytest.raises(
        InvalidJobError, match=r"cannot be imported: .*no attribute 'NONE'.*given=tests\.bench\.toys:NONE"
    ):
        find_workload("tests.bench.toys:NONE")
    with pytest.raises(InvalidJobError, match=r"no contestant of this name\. Did you mean duckdb\?"):
        make_contestant("duckbd")
