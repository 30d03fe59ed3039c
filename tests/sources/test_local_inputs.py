"""Paths on this machine: the files that a path names, and the form in which Spark gets it."""

from pathlib import Path

import pytest

from mixedmode.config.globs import input_path, pattern_of
from mixedmode.connectors.files.local_inputs import files_depth, has_magic_names, matched, spark_path, visible_files

NAMES = ["plain", "a b", "run[12]", "br[ack]{ets}", "back\\slash", "star*", "a?b", "{a,b}", "new\nline", "a,b", "ünï€"]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_and_a_file_stand_for_themselves_whatever_their_names_are(tmp_path: Path, name: str) -> None:
    file = tmp_path / name / f"{name}.json"
    file.parent.mkdir()
    file.touch()
    (tmp_path / "run1").mkdir()
    assert list(matched(str(file.parent))) == [file.parent]
    assert list(visible_files(str(file.parent))) == list(visible_files(str(file))) == [file]


@pytest.mark.parametrize("name", NAMES)
def test_spark_is_given_a_pattern_that_matches_the_path_alone(tmp_path: Path, name: str) -> None:
    file = tmp_path / name / f"{name}.json"
    file.parent.mkdir()
    file.touch()
    for path in (file.parent, file):
        given = input_path(spark_path(str(path)), lambda _: False)
        names = path.parts[len(path.parts) - len(given.parts) :]
        assert all(pattern_of(part).fullmatch(one) for part, one in zip(given.parts, names, strict=True))
    assert "{" in spark_path(str(file))


def test_only_what_does_not_exist_is_a_pattern(tmp_path: Path) -> None:
    for folder in ("run[12]", "run1", "run3"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.json").touch()
        (tmp_path / folder / "_y.json").touch()
    assert [path.name for path in matched(f"{tmp_path}/run[12]")] == ["run[12]"]
    assert [path.name for path in matched(f"{tmp_path}/run[13]")] in (["run1", "run3"], ["run3", "run1"])
    assert [path.parent.name for path in visible_files(f"{tmp_path}/run?/*.json")].count("run[12]") == 0
    assert spark_path(f"{tmp_path}/run[12]/*.json") == f"{tmp_path}/run\\[12\\]/*.json"
    assert (has_magic_names(f"{tmp_path}/run1"), has_magic_names(f"{tmp_path}/run[12]")) == (False, True)


def test_the_depth_of_files_is_told_where_it_is_one(tmp_path: Path) -> None:
    above = len(tmp_path.parts) - 1
    assert files_depth(str(tmp_path)) == above
    assert files_depth(f"{tmp_path}/*/x?") == above + 2
    assert files_depth(f"{tmp_path}/{{a,b/c}}") is None
