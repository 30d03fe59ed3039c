"""The archive of Spark's classes: who writes it, who uses it, and which files are deleted."""

import os
from pathlib import Path

import pytest

from mixedmode.checkpoint.private_folder import try_lock
from mixedmode.spark.archive_writer import write_archive
from mixedmode.spark.class_archive import ArchiveFact, archive_fact, archive_options, used_archive, without_archive

HOUR_S = 3600


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


def java_that(folder: Path, script: str) -> list[str]:
    """The command of a Java that does this; $archive is what it is to write, $list the classes."""
    java = folder / "java"
    arguments = "archive=${3#*=}; list=${2#*=}"
    java.write_text(f"#!/bin/sh\n{arguments}\n{script}\n")
    java.chmod(0o755)
    return [str(java), "-cp", "spark.jar"]


def listing(folder: Path) -> Path:
    """The list of a JVM that starts without an archive."""
    classes = place_of(archive_options("", folder=folder), "DumpLoadedClassList")
    classes.write_text("java/lang/Object\n")
    return classes


def test_the_first_jvm_lists_its_classes_and_later_ones_use_their_archive(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    classes = listing(folder)
    assert archive_fact(folder=folder) == ArchiveFact(None, "the next run writes one after it has ended")
    write_archive(classes, java_that(tmp_path, 'cp "$list" "$archive"'))
    archive = place_of(archive_options("", folder=folder), "SharedArchiveFile")
    assert archive.read_text() == "java/lang/Object\n"
    assert archive_fact(folder=folder) == ArchiveFact(archive.stat().st_size)
    assert not [*folder.glob("*.classes"), *folder.glob("*.partial")]
    aged(archive, 2)
    assert place_of(archive_options("", folder=folder), "SharedArchiveFile") == archive
    assert archive.stat().st_mtime > archive.parent.stat().st_mtime - HOUR_S, "it was used now"
    options = f'"-Da=b" "-XX:SharedArchiveFile={archive}" "-Dc=d"'
    assert (used_archive(options, folder=folder), used_archive(options)) == (archive, None), "only one of its own"
    assert without_archive(options).split() == ['"-Da=b"', '"-Dc=d"']


def test_of_two_starts_at_once_one_writes_the_archive(tmp_path: Path) -> None:
    first = listing(tmp_path)
    second = first.with_name(first.name.replace(f".{os.getpid()}.", ".7."))
    second.write_text("other\n")
    with first.with_name(f"{first.name.partition('.')[0]}.lock").open("w") as lock:
        assert try_lock(lock)
        write_archive(second, java_that(tmp_path, "exit 1"))
    assert not second.exists()
    write_archive(first, java_that(tmp_path, 'cp "$list" "$archive"'))
    second.write_text("other\n")
    write_archive(second, java_that(tmp_path, 'cp "$list" "$archive"'))
    assert place_of(archive_options("", folder=tmp_path), "SharedArchiveFile").read_text() == "java/lang/Object\n"


def test_a_java_that_writes_no_archive_is_asked_once(tmp_path: Path) -> None:
    write_archive(listing(tmp_path), java_that(tmp_path, "echo no such thing here; exit 3"))
    assert archive_options("", folder=tmp_path) == ()
    assert archive_fact(folder=tmp_path).why_none == "Java could not write one: exit code 3: no such thing here"


def test_a_truncated_archive_is_not_used_and_is_replaced(tmp_path: Path) -> None:
    java = java_that(tmp_path, 'cp "$list" "$archive"')
    write_archive(listing(tmp_path), java)
    archive = place_of(archive_options("", folder=tmp_path), "SharedArchiveFile")
    archive.write_text("java")
    write_archive(listing(tmp_path), java)
    assert place_of(archive_options("", folder=tmp_path), "SharedArchiveFile").read_text() == "java/lang/Object\n"


def test_doctor_deletes_a_damaged_archive(tmp_path: Path) -> None:
    write_archive(listing(tmp_path), java_that(tmp_path, 'cp "$list" "$archive"'))
    archive = place_of(archive_options("", folder=tmp_path), "SharedArchiveFile")
    archive.write_text("java/lang/object\n")
    assert archive_fact(folder=tmp_path).why_none.startswith("it was damaged and is deleted")
    assert not archive.exists()
    listing(tmp_path)


def test_an_archive_in_a_folder_that_cannot_be_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(listing(tmp_path), java_that(tmp_path, 'cp "$list" "$archive"'))
    archive = place_of(archive_options("", folder=tmp_path), "SharedArchiveFile")

    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and access(path, mode))
    assert place_of(archive_options("", folder=tmp_path), "SharedArchiveFile") == archive
    archive.unlink()
    assert archive_options("", folder=tmp_path) == ()
    assert archive_fact(folder=tmp_path).why_none == f"its folder cannot be written: {tmp_path}"


def test_another_class_path_or_another_java_needs_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {place_of(archive_options(path, folder=tmp_path), "DumpLoadedClassList") for path in ("", "a.jar")}
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    for version in ("17.0.1", "17.0.2"):
        (tmp_path / "jdk" / "release").write_text(f'JAVA_VERSION="{version}"')
        found.add(place_of(archive_options("", folder=tmp_path), "DumpLoadedClassList"))
    assert len(found) == 4


def test_files_that_nobody_needs_are_deleted(tmp_path: Path) -> None:
    lists, abandoned = tmp_path / "other.6.classes", tmp_path / "other.7.classes"
    unused, used = tmp_path / "unused.jsa", tmp_path / "used.jsa"
    for file in (lists, abandoned, unused, unused.with_suffix(".sum"), used, used.with_suffix(".sum")):
        file.touch()
    aged(lists, 20)
    aged(abandoned, 30)
    aged(unused, 24 * 31)
    aged(used, 24 * 29)
    archive_options("", folder=tmp_path)
    assert set(tmp_path.iterdir()) == {lists, used, used.with_suffix(".sum")}


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
