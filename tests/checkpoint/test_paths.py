"""Names: built and split in one place, sortable, and never mistaken for one another."""

from fnmatch import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import output_paths, paths
from mixedmode.checkpoint.types import Epoch, Generation, Lease

IDS = st.integers(0, 10**10 - 1)
UNIQUE = st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True)


@given(epoch=IDS, subtask=IDS, unique=UNIQUE)
def test_every_name_that_is_built_is_split_into_the_same_parts(epoch: int, subtask: int, unique: str) -> None:
    said = paths.AttemptFile(Epoch(epoch), subtask, unique)
    assert paths.parse_run_path(paths.run_path("step-1.count", Epoch(epoch), subtask, unique)) == said
    assert output_paths.parse_staged_path(output_paths.staged_path(Epoch(epoch), subtask, unique, "json.gz")) == said
    published = output_paths.OutputFile("", Epoch(epoch), Epoch(epoch), subtask, -1, "parquet")
    assert output_paths.parse_output_path(output_paths.final_path(Epoch(epoch), subtask, "parquet")) == published
    assert paths.parse_manifest_path(paths.manifest_path(Epoch(epoch))) == epoch
    assert paths.parse_generation_path(paths.generation_path(Generation(epoch))) == epoch
    assert paths.parse_rescale_path(paths.rescale_path(epoch)) == epoch


def test_savepoints_are_found_by_their_description() -> None:
    found = {"savepoint.json": "", "may/savepoint.json": "may", "a/b/savepoint.json": "a/b"}
    assert {path: paths.parse_savepoint_path(path) for path in found} == found
    for other in ("savepoint.json.tmp", "a/savepoint.json/b", "a/my-savepoint.json", ""):
        assert paths.parse_savepoint_path(other) is None


@given(ids=st.lists(IDS, min_size=2, max_size=20))
def test_names_sort_as_their_numbers_do(ids: list[int]) -> None:
    by_number = [paths.manifest_path(Epoch(number)) for number in sorted(ids)]
    assert by_number == sorted(by_number), "a listing must come in the order of epochs"


def test_names_are_those_of_the_documented_layout() -> None:
    assert paths.generation_path(Generation(3)) == "generations/0000000003"
    assert paths.manifest_path(Epoch(7)) == "manifests/0000000007.json"
    assert paths.rescale_path(7) == "parallelism/0000000007.json"
    assert paths.run_path("step-1", Epoch(7), 2, "ab") == "runs/step-1/0000000007-0000000002-ab.sst"
    assert output_paths.staged_path(Epoch(7), 2, "ab", "parquet") == "_staging/0000000007-0000000002-ab.parquet.staged"
    assert output_paths.final_path(Epoch(7), 2, "parquet") == "part-0000000007-0000000002.parquet"
    assert paths.SAVEPOINT == "savepoint.json"
    assert paths.spark_offsets_path(Epoch(7)) == "spark/offsets/7", "Spark does not pad"
    assert paths.spark_commits_path(Epoch(7)) == "spark/commits/7", "Spark does not pad"


@pytest.mark.parametrize("pattern", ["*.parquet", "*.json", "*.csv", "*.gz"])
def test_a_glob_of_files_to_read_finds_nothing_of_the_bookkeeping(pattern: str) -> None:
    extension = pattern[2:]
    bookkeeping = [
        output_paths.OUTPUT_DESCRIPTION,
        output_paths.SENT,
        output_paths.compaction_path(0),
        output_paths.epoch_marker_path(Epoch(0)),
        output_paths.staged_path(Epoch(0), 0, "ab", extension),
    ]
    assert not [path for path in bookkeeping if fnmatch(path, pattern) or not path.startswith("_")]
    assert fnmatch(output_paths.final_path(Epoch(0), 0, extension), pattern)
    assert fnmatch(output_paths.compacted_path(Epoch(0), Epoch(1), 2, extension), pattern)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "manifests/7.json",
        "parallelism/7.json",
        "manifests/0000000007.json.tmp",
        "manifests/0000000007.json\n",
        "manifests/00000000x7.json",
        "manifests/٠٠٠٠٠٠٠٠٠٧.json",  # noqa: RUF001  Arabic digits, which int() would take
        "runs/0000000007-0000000002-ab.sst",
        "runs/a/b/0000000007-0000000002-ab.sst",
        "runs/../0000000007-0000000002-ab.sst",
        "_staging/0000000007-0000000002.parquet",
        "part-0000000007.parquet",
        "generations/3",
    ],
)
def test_foreign_names_are_not_split(name: str) -> None:
    parsers = (
        paths.parse_manifest_path,
        paths.parse_rescale_path,
        paths.parse_run_path,
        output_paths.parse_staged_path,
        output_paths.parse_output_path,
        paths.parse_generation_path,
    )
    assert [parse(name) for parse in parsers] == [None] * 6, name


def test_an_attempt_names_the_start_it_belongs_to() -> None:
    unique = paths.attempt(Generation(12), "9f3a")
    assert unique == "g0000000012_9f3a"
    assert paths.parse_attempt(unique) == 12
    assert paths.parse_attempt("9f3a") is None, "a name made without it says nothing"


def test_ids_of_more_than_ten_digits_are_refused() -> None:
    with pytest.raises(AssertionError):
        paths.manifest_path(Epoch(10**10))


def test_the_name_of_a_lease_holds_all_of_it() -> None:
    lease = Lease(Epoch(7), 1_700_000_000_000, "9f3a")
    assert paths.lease_path(lease) == "leases/0000000007-001700000000000-9f3a.json"
    assert paths.parse_lease_path(paths.lease_path(lease)) == lease
    for name in ("leases/7-1-a.json", "leases/0000000007-001700000000000-.json", "manifests/0000000007.json"):
        assert paths.parse_lease_path(name) is None
