"""Spark's log as a listing: what it needs, what is later, and that deleting may stop anywhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.checksum import is_hadoop_checksum_of
from mixedmode.checkpoint.spark_log import (
    entry_problem,
    epochs_done,
    files_after,
    files_up_to,
    newest_begun,
    source_entries_read,
    source_log_ends,
)
from mixedmode.checkpoint.types import Epoch
from tests.checkpoint.folders import hadoop_checksum

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000}'
_COMPACT_EVERY = 10


@dataclass(frozen=True)
class SparkLog:
    """The log that Spark has written after some epochs: `ends[epoch]` is the end of each source's log."""

    ends: tuple[tuple[int, ...], ...]
    is_committed: bool  # whether the last epoch is over
    ahead: int  # entries of source 0 beyond what the last epoch refers to

    @property
    def last(self) -> int:
        return len(self.ends) - 1

    def offsets(self, epoch: int) -> Mapping[int, int]:
        """Return the ends of the sources' logs, as a manifest records them."""
        return source_log_ends(self.text(epoch), range(len(self.ends[0]) + 1))

    def text(self, epoch: int) -> str:
        lines = ["-" if end < 0 else f'{{"logOffset":{end}}}' for end in self.ends[epoch]]
        return "\n".join([HEAD, *lines, str(epoch)])  # the last one is a source that counts by itself

    def listing(self) -> list[str]:
        names = [paths.SPARK_METADATA, paths.spark_source_path(len(self.ends[0]), 0)]
        names += [paths.spark_offsets_path(Epoch(epoch)) for epoch in range(self.last + 1)]
        names += [paths.spark_commits_path(Epoch(epoch)) for epoch in range(self.last + self.is_committed)]
        for source, end in enumerate(self.ends[-1]):
            newest = end + (self.ahead if source == 0 else 0)
            for number in range(newest + 1):
                is_compact = number % _COMPACT_EVERY == _COMPACT_EVERY - 1
                names.append(paths.spark_source_path(source, number, is_compact=is_compact))
        return sorted([*names, *(_checksum_of(name) for name in names), "spark/offsets/.3.0ba1.tmp", "job.json"])


def _checksum_of(name: str) -> str:
    folder, _, file = name.rpartition("/")
    return f"{folder}/.{file}.crc"


@st.composite
def spark_logs(draw: st.DrawFn) -> SparkLog:
    sources = draw(st.integers(1, 3))
    news = draw(st.lists(st.tuples(*[st.integers(0, 2)] * sources), min_size=1, max_size=25))
    ends, now = [], (-1,) * sources
    for new in news:  # 2: an entry that a crash left unused, and one more
        now = tuple(end + more for end, more in zip(now, new, strict=True))
        ends.append(now)
    return SparkLog(tuple(ends), draw(st.booleans()), draw(st.integers(0, 1)))


def missing(listing: Iterable[str], offsets: Mapping[int, int]) -> set[str]:
    listing = list(listing)
    return set(source_entries_read(listing, offsets)) - set(listing)


LOG = SparkLog(((0, -1), (1, -1), (1, 0), (3, 0)), is_committed=True, ahead=0)


def test_what_spark_needs_is_its_last_two_epochs_and_all_that_the_sources_had() -> None:
    assert files_up_to(LOG.listing(), Epoch(2), LOG.offsets(2)) == (
        "spark/metadata",
        "spark/sources/0/0",
        "spark/sources/0/1",
        "spark/sources/1/0",
        "spark/sources/2/0",
        "spark/offsets/1",
        "spark/offsets/2",
        "spark/commits/1",
        "spark/commits/2",
    )


def test_without_the_offsets_every_entry_of_a_source_is_needed_and_none_is_later() -> None:
    needed = files_up_to(LOG.listing(), Epoch(1))
    assert {path for path in needed if "sources" in path} == {
        *(f"spark/sources/0/{number}" for number in range(4)),
        "spark/sources/1/0",
        "spark/sources/2/0",
    }
    assert not [path for path in files_after(LOG.listing(), Epoch(1)) if "sources" in path]


def test_what_is_later_goes_by_the_count_of_each_source_and_the_newest_commit_is_the_last() -> None:
    assert files_after(LOG.listing(), Epoch(1), LOG.offsets(1)) == (
        "spark/offsets/3",
        "spark/offsets/.3.crc",
        "spark/offsets/2",
        "spark/offsets/.2.crc",
        "spark/sources/0/3",
        "spark/sources/0/.3.crc",
        "spark/sources/0/2",
        "spark/sources/0/.2.crc",
        "spark/commits/.2.crc",
        "spark/commits/2",
        "spark/commits/.3.crc",
        "spark/commits/3",
    ), "source 1 had nothing yet, so it is not known to be a log of files; what is there of it is harmless"


def test_a_source_entry_counts_by_its_number_also_when_it_is_a_compact_one() -> None:
    log = SparkLog(((9,), (10,)), is_committed=True, ahead=0)
    assert "spark/sources/0/9.compact" in files_up_to(log.listing(), Epoch(0), log.offsets(0))
    assert not missing(log.listing(), log.offsets(0))
    assert [path for path in files_after(log.listing(), Epoch(0), log.offsets(0)) if "sources" in path] == [
        "spark/sources/0/10",
        "spark/sources/0/.10.crc",
    ]


def test_spark_reads_the_newest_compact_entry_and_what_is_after_it() -> None:
    log = SparkLog(((12, 0), (21, 1)), is_committed=True, ahead=1)
    assert source_entries_read(log.listing(), log.offsets(0)) == (
        "spark/sources/0/9.compact",
        *(f"spark/sources/0/{number}" for number in (10, 11, 12)),
        "spark/sources/1/0",
    )
    assert source_entries_read(log.listing(), log.offsets(1))[:2] == (
        "spark/sources/0/19.compact",
        "spark/sources/0/20",
    )


def test_an_entry_that_spark_reads_is_named_when_it_is_gone() -> None:
    listing = [path for path in LOG.listing() if path != "spark/sources/0/3"]
    assert missing(listing, LOG.offsets(3)) == {"spark/sources/0/3"}, "its checksum file is not enough"
    assert not missing(listing, LOG.offsets(2))
    assert not source_entries_read([], {}), "the last epoch of all has no offsets"


def test_an_epoch_is_over_when_spark_says_so_or_has_begun_the_next() -> None:
    assert epochs_done([]) is newest_begun([]) is None
    assert epochs_done(["spark/offsets/0"]) is None
    assert epochs_done(["spark/offsets/0", "spark/commits/0"]) == 0
    assert epochs_done(["spark/offsets/0", "spark/offsets/1"]) == 0
    assert newest_begun(["spark/offsets/9", "spark/offsets/10", "spark/offsets/.11.crc", "spark/commits/12"]) == 10
    assert epochs_done(["spark/offsets/.9.crc"]) is None, "a checksum file alone is of an entry that is gone"


def test_lines_that_say_nothing_of_a_log_of_files_are_passed_over() -> None:
    text = f'{HEAD}\n{{"logOffset":4}}\n-\n17\n{{"partition":3}}\n[1]\n{{"logOffset":0}}'
    assert source_log_ends(text, range(6)) == {0: 4, 5: 0}
    assert all(source_log_ends(cut, range(6)) == {} for cut in ("", "v1", 'v1\n{"cut'))


@given(log=spark_logs(), data=st.data())
def test_no_file_is_both_needed_and_later_and_no_entry_is_neither(log: SparkLog, data: st.DataObject) -> None:
    epoch = data.draw(st.integers(0, log.last))
    needed = set(files_up_to(log.listing(), Epoch(epoch), log.offsets(epoch)))
    later = set(files_after(log.listing(), Epoch(epoch), log.offsets(epoch)))
    assert not needed & later
    unneeded = {path for path in log.listing() if (file := paths.parse_spark_path(path)) and not file.is_checksum}
    unneeded -= needed | later
    numbers = [file.number for path in unneeded if (file := paths.parse_spark_path(path))]
    assert all(number < epoch - 1 for number in numbers), "older epochs"
    assert not missing(needed, log.offsets(epoch))


@given(log=spark_logs(), data=st.data())
def test_a_deletion_that_stops_anywhere_leaves_spark_ahead_or_whole(log: SparkLog, data: st.DataObject) -> None:
    epoch = data.draw(st.integers(0, log.last))
    later = files_after(log.listing(), Epoch(epoch), log.offsets(epoch))
    stopped = data.draw(st.integers(0, len(later)))
    left = [path for path in log.listing() if path not in later[:stopped]]
    done = epochs_done(left)
    begun = [e for e in range(log.last + 1) if paths.spark_offsets_path(Epoch(e)) in left]
    for one in begun:
        assert not missing(left, log.offsets(one)), "what an epoch refers to goes after the epoch"
    if done is None or done <= epoch:  # the next start does not see that Spark is ahead, so it has to be right as it is
        assert max(begun) <= epoch + 1
    assert files_after(left, Epoch(epoch), log.offsets(epoch)) == later[stopped:], "the next start goes on from there"


@given(log=spark_logs())
def test_nothing_is_later_than_the_last_epoch_but_what_a_crash_left(log: SparkLog) -> None:
    later = files_after(log.listing(), Epoch(log.last), log.offsets(log.last))
    is_known = log.ends[-1][0] >= 0
    assert len(later) == (2 * log.ahead if is_known else 0)


@given(data=st.binary(min_size=1, max_size=1500), step=st.sampled_from([1, 7, 512]), where=st.integers(0, 10**6))
def test_a_flipped_bit_or_a_cut_is_seen_by_the_checksum_beside_the_file(data: bytes, step: int, where: int) -> None:
    checksum = hadoop_checksum(data, step)
    assert is_hadoop_checksum_of(checksum, data)
    assert entry_problem(data, checksum) is None
    flipped = bytearray(data)
    flipped[where % len(data)] ^= 1 << (where % 8)
    assert entry_problem(bytes(flipped), checksum) == "does not match its checksum"
    assert not is_hadoop_checksum_of(checksum, data[: where % len(data)])
    damaged = bytearray(checksum)
    damaged[where % 4 if where % 2 else 8 + where % (len(damaged) - 8)] ^= 1 << (where % 8)
    assert not is_hadoop_checksum_of(bytes(damaged), data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (LOG.text(3).encode(), None),
        (b"v1\n1795282338304", None),
        (LOG.text(3).encode()[:40], "cannot be read"),
        (b"v1\n\xff", "cannot be read"),
        (b"v1", "is cut short"),
        (b"", "is cut short"),
        (b"{}\n{}", "is cut short"),
        (b"v3\n{}", "has a version that Spark cannot read"),
    ],
)
def test_without_a_checksum_an_entry_has_to_have_the_form_of_one(data: bytes, problem: str | None) -> None:
    assert entry_problem(data, None) == problem


def test_a_source_that_a_query_reads_twice_has_one_log_and_one_end() -> None:
    """Two sources, each read twice, and a clock: five lines of offsets, three logs."""
    listing = [f"spark/sources/{name}" for name in ("0/0", "0/1", "0/2", "1/0", "1/1", "1/2", "2/0")]
    text = f'{HEAD}\n{{"logOffset":1}}\n{{"logOffset":0}}\n{{"logOffset":1}}\n{{"logOffset":0}}\n9'
    ends = source_log_ends(text, (0, 1, 0, 1, 2))
    assert ends == {0: 1, 1: 0}
    assert source_entries_read(listing, ends) == ("spark/sources/0/0", "spark/sources/0/1", "spark/sources/1/0")
    assert set(files_after(listing, Epoch(1), ends)) == {
        "spark/sources/0/2",
        "spark/sources/1/1",
        "spark/sources/1/2",
    }
