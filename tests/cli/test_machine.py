"""Gathering facts: each way in which a thing can be missing or broken becomes a fact, never an exception."""

import os
import sys
from pathlib import Path

import pytest

from mixedmode.cli import machine
from mixedmode.cli.machine import (
    JavaFact,
    available_memory,
    folder_fact,
    gather_facts,
    java_fact,
    java_version,
    required_packages,
    split_requirement,
)

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)\n'
JAVA_8 = 'java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)\n'


def fake_java(home: Path, body: str) -> Path:
    """A JAVA_HOME whose java is the shell script `body`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{body}\n")
    java.chmod(0o755)
    return java


def test_a_user_without_a_name_and_a_home_folder_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.user_name(os.getuid())
    unknown = 2**31 - 7
    monkeypatch.setattr("os.getuid", lambda: unknown)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for name in ("MIXEDMODE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    facts = gather_facts()
    assert facts.user is None
    assert "this user has no home folder" in facts.class_archive.why_none


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (JAVA_17, "17.0.15"),
        (JAVA_8, "1.8.0_392"),
        ('openjdk version "21" 2023-09-19\n', "21"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16\n', "25-ea"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.\n", None),
        ("", None),
    ],
)
def test_the_version_is_found_in_what_java_prints(text: str, version: str | None) -> None:
    assert java_version(text) == version


def test_java_home_goes_before_the_path_as_in_sparks_launcher(tmp_path: Path) -> None:
    java = fake_java(
        tmp_path,
        'case "$1" in -version) echo \'openjdk version "21.0.2" 2024-01-16\' >&2;; '
        "*) echo java.base@21.0.2; echo jdk.incubator.vector@21.0.2;; esac",
    )
    found = java_fact(str(tmp_path))
    assert found == JavaFact(str(java), True, "21.0.2", frozenset({"java.base", "jdk.incubator.vector"}))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 1", ""),
        ("echo 'Unable to locate a Java Runtime' >&2; exit 1", "Unable to locate a Java Runtime"),
        ("printf '\\377'", "\N{REPLACEMENT CHARACTER}"),
        ("printf 'no memory\\n\\nfor the heap\\n'; exit 1", "no memory for the heap"),
    ],
)
def test_a_java_that_does_not_run_has_no_version_and_says_why(tmp_path: Path, body: str, said: str) -> None:
    java = fake_java(tmp_path, body)
    assert java_fact(str(tmp_path)) == JavaFact(str(java), True, None, frozenset(), said)


def test_a_java_home_that_does_not_exist_is_named_and_has_no_version(tmp_path: Path) -> None:
    missing = "No such file or directory"
    assert java_fact(str(tmp_path)) == JavaFact(str(tmp_path / "bin" / "java"), True, None, frozenset(), missing)


def test_a_java_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "exec sleep 60")
    monkeypatch.setattr(machine, "JAVA_TIMEOUT_S", 0.1)
    found = java_fact(str(tmp_path))
    assert (found.version, "timed out" in found.said) == (None, True)


@pytest.mark.parametrize("java_home", [None, ""])
def test_no_java_at_all_is_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java_home: str | None) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_fact(java_home) == JavaFact(None)


@pytest.mark.parametrize(
    ("line", "name", "requirement"),
    [
        ("numpy>=2.4,<3", "numpy", ">=2.4,<3"),
        ("numpy <3, >=2.4", "numpy", ">=2.4,<3"),
        ("PyYAML (>=6.0)", "PyYAML", ">=6.0"),
        ("types-PyYAML", "types-PyYAML", ""),
        ("pandas[performance]~=2.3", "pandas", "~=2.3"),
    ],
)
def test_a_requirement_line_is_a_name_and_a_range(line: str, name: str, requirement: str) -> None:
    assert split_requirement(line) == (name, requirement)


def test_the_required_packages_are_those_of_the_project_file() -> None:
    names = {split_requirement(line)[0].lower() for line in required_packages()}
    assert {"numpy", "pyarrow", "pyspark", "rocksdict", "pyyaml"} <= names
    assert not {"pytest", "ruff", "mypy", "duckdb"} & names, "what only the tests need is no requirement of a job"


def test_without_metadata_the_ranges_come_from_the_source_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = required_packages()
    monkeypatch.setattr(machine, "DISTRIBUTION", "a-name-that-nobody-has-installed")
    from_source = required_packages()
    as_pairs = [{(name.lower(), span) for name, span in map(split_requirement, x)} for x in (installed, from_source)]
    assert as_pairs[0] == as_pairs[1], "the installed metadata is older than pyproject.toml: install the project again"


def test_a_package_that_is_not_installed_or_breaks_on_import_is_a_fact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_thing.py").write_text("raise OSError('libfoo.so.1: cannot open shared object file')\n")
    metadata = tmp_path / "broken_thing-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-thing\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(machine, "required_packages", lambda: ["broken-thing>=1", "absent-thing>=3"])
    broken, absent = gather_facts().packages
    assert broken.installed == "1.2"
    assert broken.import_error == "OSError: libfoo.so.1: cannot open shared object file"
    assert (absent.installed, absent.import_error) == (None, None)
    assert gather_facts(import_packages=False).packages[0].import_error is None


def test_a_folder_that_does_not_exist_yet_is_judged_by_the_one_above_it(tmp_path: Path) -> None:
    fact = folder_fact(tmp_path / "not" / "yet")
    assert fact.writable
    assert fact.free_bytes is not None
    assert fact.free_bytes > 0
    assert not (tmp_path / "not").exists(), "asking must not make the folder"


def test_a_file_in_the_place_of_the_folder_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fact = folder_fact(tmp_path / "file" / "checkpoints")
    assert not fact.writable
    assert fact.free_bytes is not None, "the disk below the file answers"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    1000 kB\n"}, 1000 * 1024),
        ({"proc/meminfo": "MemAvailable: 1000 kB\n", "sys/fs/cgroup/memory.max": "max\n"}, 1000 * 1024),
        (
            {
                "proc/meminfo": "MemAvailable: 1000 kB\n",
                "sys/fs/cgroup/memory.max": "5000\n",
                "sys/fs/cgroup/memory.current": "4000\n",
                "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 300\n",
            },
            1300,
        ),
        ({"sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "6000\n"}, 0),
    ],
)
def test_a_containers_limit_counts_as_well_as_the_machines_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int | None
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert available_memory(tmp_path) == expected


def test_facts_of_this_machine_are_gathered(tmp_path: Path) -> None:
    facts = gather_facts([tmp_path])
    assert facts.python_version == sys.version_info[:3]
    assert facts.python_executable == sys.executable
    assert facts.is_root == (os.geteuid() == 0)
    assert [folder.path for folder in facts.folders] == [tmp_path]
