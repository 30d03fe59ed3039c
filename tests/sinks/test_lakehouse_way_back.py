"""The rollback of a lakehouse table is decided from its history alone, or refused. Pure."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixedmode.checkpoint.contents import NOTHING, content_after, contents_after
from mixedmode.checkpoint.types import Epoch, StagedFile
from mixedmode.connectors.lakehouse.checks import is_of_manifest, is_published
from mixedmode.connectors.lakehouse.table import Commit, Mark, MarkKind, WayBack, decide_way_back, newest_mark
from mixedmode.errors import FencedError
from tests.checkpoint.examples import a_manifest, a_staged


def mark(kind: MarkKind, epoch: int) -> Mark:
    return Mark("job", "", kind, epoch)


def history(*marks: Mark | None) -> list[Commit]:
    """Commits from the newest to the oldest; `marks` are from the oldest to the newest, None: somebody else's."""
    return [Commit(number, one) for number, one in enumerate(marks)][::-1]


def knows() -> bool:
    return True


def knows_not() -> bool:
    return False


@given(st.integers(-1, 9))
def test_the_table_becomes_what_the_newest_commit_without_later_epochs_left(after: int) -> None:
    created = None
    commits = history(created, *(mark("epoch", epoch) for epoch in range(8)))
    way = decide_way_back(commits, Epoch(after), knows)
    if after >= 7:
        assert way is None
    else:
        assert isinstance(way, WayBack)
        assert way.to is not None
        assert (way.to.number, len(way.since)) == (after + 1, 7 - after)


def test_after_going_back_once_it_can_go_back_further() -> None:
    commits = history(mark("epoch", 0), mark("epoch", 1), mark("epoch", 2), mark("back", 1), mark("epoch", 2))
    near, far = (decide_way_back(commits, Epoch(epoch), knows) for epoch in (1, 0))
    assert isinstance(near, WayBack)
    assert isinstance(far, WayBack)
    assert (near.to, far.to) == (commits[1], commits[4])


def test_a_table_that_the_job_has_made_with_its_first_epoch_has_nothing_to_go_back_to() -> None:
    way = decide_way_back(history(mark("epoch", 3), mark("epoch", 4)), Epoch(2), knows)
    assert isinstance(way, WayBack)
    assert (way.to, len(way.since)) == (None, 2)


@pytest.mark.parametrize("after", [0, 2])
def test_rows_that_others_have_written_since_keep_the_table_from_going_back(after: int) -> None:
    """The rows of later epochs would stay, whether epochs are merged or appended."""
    commits = history(mark("epoch", 0), mark("epoch", 2), mark("epoch", 3), None, mark("epoch", 4))
    assert decide_way_back(commits, Epoch(after), knows) == "somebody else wrote commit 3 to the table since"
    compacted = [Commit(one.number, one.mark, changes_rows=one.mark is not None) for one in commits]
    assert isinstance(decide_way_back(compacted, Epoch(after), knows), WayBack)


@pytest.mark.parametrize("epochs", [(), (0,), (0, 1, 2), (0, 5)])
@pytest.mark.parametrize("after", range(6))
def test_a_table_does_not_return_to_before_the_checkpoints_of_a_backfill(epochs: tuple[int, ...], after: int) -> None:
    """In an older savepoint, windows of the range are open. Its job would write their rows again, beside those of the
    backfill, also if no epoch since has rows of the output.
    """
    commits = history(None, *(mark("epoch", epoch) for epoch in epochs), mark("backfill", 3))
    newest = max(epochs, default=-1)
    way = decide_way_back(commits, Epoch(after), knows)
    if after >= max(3, newest):
        assert way is None
    else:
        assert way == f"a backfill wrote commit {len(epochs) + 1} to the table since"


def test_without_a_later_epoch_only_the_newest_commits_are_read() -> None:
    commits = iter(history(*(mark("epoch", epoch) for epoch in range(8)), None, mark("backfill", 2)))
    assert decide_way_back(commits, Epoch(7), knows) is None
    assert next(commits).number == 6


@pytest.mark.parametrize(
    ("pasts", "is_open"),
    [
        ([("epoch", 0)], 0),
        ([("epoch", 0), ("backfill", 0)], 0),
        ([("epoch", 0), ("closed", 0)], 1),
        ([("epoch", 0), ("closed", 0), ("closed", 0)], 1),
        ([("epoch", 0), ("closed", 0), ("back", 1)], 1),
        ([("epoch", 0), ("closed", 0), ("epoch", 1)], 1),
        ([("epoch", 0), ("closed", 0), ("epoch", 1), ("closed", 1)], 2),
        ([("epoch", 0), ("closed", 0), ("closed", 1)], 2),
        ([("closed", 0), ("closed", 1), ("closed", 0)], 2),
    ],
)
def test_nothing_more_is_written_in_a_past_that_was_closed(pasts: list[tuple[MarkKind, int]], is_open: int) -> None:
    """A rollback closes the past first. If it does not end, the job may go on where it was."""
    newest = newest_mark(history(*(replace(mark(kind, 0), past=past) for kind, past in pasts)))
    assert newest is not None
    assert newest.past == is_open


def test_a_history_that_was_cut_off_does_not_pass_for_the_beginning_of_the_table() -> None:
    """The oldest commit that is known holds rows of epochs before it, of which the history no longer tells."""
    commits = [*history(mark("epoch", 50), mark("epoch", 51)), Commit(-1, None, changes_rows=False)]
    found = decide_way_back(commits, Epoch(40), knows_not)
    assert found == "the table's history no longer tells what the table was then"


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 6), st.booleans())
def test_a_manifest_is_that_of_a_table_whose_epochs_led_to_it(
    with_rows: list[bool], published: int, is_of_others: bool
) -> None:
    """The table may lack the newest epoch, and have later ones; here it has the first `published` epochs."""
    latest, marks, content, led_to = None, [], "other" if is_of_others else NOTHING, []
    for epoch, has_rows in enumerate(with_rows):
        files = [a_staged(epoch)] if has_rows else []
        contents = contents_after(latest, Epoch(epoch), files, [""])
        latest = replace(a_manifest(epoch, outputs=files), output_names=("",), output_contents=contents)
        led_to.append(latest)
        content = content_after(content, Epoch(epoch), files)
        if has_rows and epoch < published:
            marks.append(replace(mark("epoch", epoch), content=content))
    for manifest in led_to:
        is_own = is_of_manifest(history(None, *marks), manifest, "")
        is_foreign = is_of_others and any(one.epoch <= manifest.epoch for one in marks)
        lacks_rows = any(with_rows[published : manifest.epoch])
        assert is_own == (not is_foreign and not lacks_rows)


@dataclass(frozen=True)
class Start:
    """A start that publishes to a table of marks, and has left the table with this digest after its newest epoch."""

    owner: str
    epoch: int = -1
    content: str = NOTHING

    def publish(self, table: list[Mark], epoch: int, files: list[StagedFile], *, gets_answer: bool) -> "Start":
        newest = table[-1] if table else None
        content = content_after(self.content, Epoch(epoch), files)
        own = replace(mark("epoch", epoch), owner=self.owner, content=content)
        if not is_published(newest, own, self.content, "table=t"):
            table.append(own)
            return replace(self, epoch=epoch, content=content) if gets_answer else self
        return replace(self, epoch=epoch, content=table[-1].content)


@given(st.data())
def test_an_epoch_is_written_only_after_those_that_its_start_has_seen(data: st.DataObject) -> None:
    """Starts over copies of a checkpoint folder, and one over another folder, publish in any order."""
    table: list[Mark] = []
    starts = {"a": Start("folder"), "copy": Start("folder"), "other": Start("other folder")}
    files_of: dict[str, list[StagedFile]] = {}  # of the newest epoch that a start has tried
    for step in range(data.draw(st.integers(1, 15))):
        name = data.draw(st.sampled_from(sorted(starts)))
        start, again = starts[name], data.draw(st.booleans())
        if name == "copy" and data.draw(st.booleans()):
            starts["copy"] = starts["a"]
            continue
        is_repeat = again and start.epoch >= 0
        epoch = start.epoch if is_repeat else start.epoch + 1
        tried = [file for file in files_of.get(name, []) if file.staged_path == a_staged(epoch).staged_path]
        files = tried or [replace(a_staged(epoch), checksum=f"{step:016}")]
        files_of[name] = files
        written = len(table)
        try:
            starts[name] = start.publish(table, epoch, files, gets_answer=data.draw(st.booleans()))
        except FencedError:
            assert table[-1].content != start.content or table[-1].owner != start.owner
        if len(table) > written:
            before = table[-2].content if written else NOTHING
            assert (before, epoch) == (start.content, written), "the table has what the start has left, and one more"
    assert len({one.owner for one in table}) <= 1
