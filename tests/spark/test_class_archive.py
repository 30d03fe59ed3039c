"""The archive of Spark's classes: who writes it, who uses it, and which files are deleted."""

import os
from pathlib import Path

import pytest

from mixedmode.spark.class_archive import archive_bytes, archive_options

HOUR_S = 3600
WHOLE, UNFINISHED = b"\xa8\xba\x0b\xf0 and regions", bytes(16)


@pytest.fixture(autouse=True)
def without_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)


def place_of(options: tuple[str, ...], option: str) -> Path:
    """The file of an option, which is the first one."""
    assert options[0].startswith(f"-XX:{option}="), options
    return Path(options[0].partition("=")[2])


def aged(file: Path, hours: float) -> Path:
    at = file.stat().st_mtime - hours * HOUR_S
    os.utime(file, (at, at))
    return file


def test_the_first_jvm_writes_an_archive_and_later_ones_use_it(tmp_path: Path) -> None:
    partial = place_of(archive_options("", folder=tmp_path / "classes"), "ArchiveClassesAtExit")
    assert (partial.parent, partial.suffix) == (tmp_path / "classes", ".partial")
    assert archive_bytes(folder=partial.parent) is None
    partial.write_bytes(UNFINISHED)  # Java writes the header last
    assert place_of(archive_options("", folder=partial.parent), "ArchiveClassesAtExit") == partial
    partial.write_bytes(WHOLE)
    archive = place_of(archive_options("", folder=partial.parent), "SharedArchiveFile")
    assert (archive.read_bytes(), partial.exists()) == (WHOLE, False)
    assert archive_bytes(folder=archive.parent) == len(WHOLE)
    aged(archive, 2)
    assert place_of(archive_options("", folder=partial.parent), "SharedArchiveFile") == archive
    assert archive.stat().st_mtime > archive.parent.stat().st_mtime - HOUR_S, "it was used now"


def test_another_class_path_or_another_java_needs_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {place_of(archive_options(path, folder=tmp_path), "ArchiveClassesAtExit") for path in ("", "a.jar")}
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    for version in ("17.0.1", "17.0.2"):
        (tmp_path / "jdk" / "release").write_text(f'JAVA_VERSION="{version}"')
        found.add(place_of(archive_options("", folder=tmp_path), "ArchiveClassesAtExit"))
    assert len(found) == 4


def test_files_that_nobody_needs_are_deleted(tmp_path: Path) -> None:
    partial = place_of(archive_options("", folder=tmp_path), "ArchiveClassesAtExit")
    abandoned = tmp_path / "other.7.partial"
    unused, used = tmp_path / "unused.jsa", tmp_path / "used.jsa"
    for file in (partial, abandoned, unused, used):
        file.write_bytes(UNFINISHED)
    aged(abandoned, 2)
    aged(unused, 24 * 31)
    aged(used, 24 * 29)
    archive_options("", folder=tmp_path)
    assert set(tmp_path.iterdir()) == {partial, used}
    partial.write_bytes(WHOLE)
    archive = place_of(archive_options("", folder=tmp_path), "SharedArchiveFile")
    partial.write_bytes(WHOLE)  # of another start that had no archive either
    aged(partial, 2)
    archive_options("", folder=tmp_path)
    assert set(tmp_path.iterdir()) == {archive, used}


@pytest.mark.parametrize(
    ("variable", "options"),
    [
        ("SPARK_SUBMIT_OPTS", "-XX:SharedArchiveFile=mine.jsa"),
        ("JAVA_TOOL_OPTIONS", "-Xshare:off"),
        ("JDK_JAVA_OPTIONS", "-XX:ArchiveClassesAtExit=mine.jsa"),
    ],
)
def test_an_archive_of_the_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, options: str
) -> None:
    monkeypatch.setenv(variable, f"-Xmx1g {options}")
    assert archive_options("", folder=tmp_path) == ()


def test_without_java_or_a_folder_spark_starts_without_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert archive_options("", folder=tmp_path / "file" / "classes") == ()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert archive_options("", folder=tmp_path) == ()
