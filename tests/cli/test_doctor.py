"""Judging facts: every broken machine is a value here, and its finding names the command that mends it."""

import builtins
import io
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from mixedmode.cli import doctor
from mixedmode.cli.doctor import (
    DISK_BYTES_MIN,
    JAVA_MODULE,
    MEMORY_BYTES_MIN,
    Finding,
    check_environment,
    doctor_report,
    java_major,
    plain_report,
    require_environment,
    version_in_range,
)
from mixedmode.cli.machine import Facts, FolderFact, JavaFact, PackageFact, gather_facts
from mixedmode.errors import RetryableError
from mixedmode.spark.class_archive import ArchiveFact

HEALTHY = Facts(
    python_version=(3, 11, 7),
    python_executable="/venv/bin/python",
    installer="apt-get",
    is_root=False,
    class_archive=ArchiveFact(None, "of a test"),
    java=JavaFact("/usr/bin/java", version="17.0.15", modules=frozenset({"java.base", JAVA_MODULE})),
    packages=(PackageFact("numpy", ">=2.4,<3", "2.4.6"), PackageFact("pyspark", ">=4.3,<4.4", "4.3.0")),
    folders=(FolderFact(Path("run"), 10 * 2**30, writable=True),),
    memory_bytes=8 * 2**30,
    user="flights",
    sockets=Path("/tmp/sockets"),
)


def failed(facts: Facts) -> Finding:
    """The one finding that is not ok."""
    (finding,) = [finding for finding in check_environment(facts) if not finding.ok]
    return finding


def give(monkeypatch: pytest.MonkeyPatch, facts: Facts) -> None:
    monkeypatch.setattr(doctor, "gather_facts", lambda *_, **__: facts)


def test_nothing_is_wrong_with_a_healthy_machine() -> None:
    findings = check_environment(HEALTHY)
    assert all(finding.ok for finding in findings), findings
    names = [
        "Python",
        "Java",
        "numpy",
        "pyspark",
        "disk at run",
        "memory",
        "user",
        "archive of Spark's classes",
        "sockets of tasks",
    ]
    assert [finding.what for finding in findings] == names
    assert {finding.fix for finding in findings} == {""}


def test_a_user_without_a_name_cannot_run_a_job() -> None:
    finding = failed(replace(HEALTHY, user=None))
    assert (finding.what, finding.found) == ("user", "the system knows no name for its id")
    assert "add this one to /etc/passwd" in finding.fix


def test_tasks_that_use_tcp_are_told() -> None:
    (finding,) = [one for one in check_environment(replace(HEALTHY, sockets=None)) if one.what == "sockets of tasks"]
    assert finding.ok
    assert finding.found.startswith("TCP: there is no folder of a short name")


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (3, 14, 0), (4, 0, 0)])
def test_a_new_python_is_good(version: tuple[int, int, int]) -> None:
    assert check_environment(replace(HEALTHY, python_version=version))[0].ok


def test_too_old_a_python_names_the_package_to_install() -> None:
    assert failed(replace(HEALTHY, python_version=(3, 9, 18))) == Finding(
        "Python",
        found="3.9.18",
        needed="3.11 or later",
        fix="sudo apt-get install -y python3.11 python3.11-venv, and make a new virtual environment with it",
    )


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25), ("9", 9), ("1", 1), ("x", 0)]
)
def test_each_spelling_of_a_java_version_has_its_major(version: str, major: int) -> None:
    assert java_major(version) == major


@pytest.mark.parametrize(
    ("java", "found"),
    [
        (JavaFact(None), "no java: JAVA_HOME is not set, and there is none on PATH"),
        (JavaFact("/opt/x/bin/java", from_java_home=True), "/opt/x/bin/java (from JAVA_HOME) does not run"),
        (JavaFact("/usr/bin/java"), "/usr/bin/java does not run"),
        (JavaFact("/usr/bin/java", said="no memory"), "/usr/bin/java does not run: no memory"),
        (JavaFact("/usr/bin/java", version="1.8.0_392"), "1.8.0_392 (/usr/bin/java)"),
        (
            JavaFact("/jre/bin/java", version="17.0.2", modules=frozenset({"java.base"})),
            "17.0.2 without the module jdk.incubator.vector, which Spark asks for (/jre/bin/java)",
        ),
    ],
)
def test_each_java_that_spark_cannot_start_with_is_told_apart(java: JavaFact, found: str) -> None:
    finding = failed(replace(HEALTHY, java=java))
    assert (finding.what, finding.found, finding.needed) == ("Java", found, "a JDK, 17 or later")


@pytest.mark.parametrize(
    ("installer", "is_root", "java", "fix"),
    [
        (
            "apt-get",
            False,
            JavaFact(None),
            "sudo apt-get install -y openjdk-17-jdk-headless (on newer systems: openjdk-21-jdk-headless)",
        ),
        (
            "apt-get",
            True,
            JavaFact(None),
            "apt-get install -y openjdk-17-jdk-headless (on newer systems: openjdk-21-jdk-headless)",
        ),
        ("brew", False, JavaFact(None), 'brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"'),
        ("dnf", True, JavaFact(None), "dnf install -y java-17-openjdk-devel"),
        (
            None,
            False,
            JavaFact("/x/bin/java", from_java_home=True),
            "install a JDK, 17 or later; then set JAVA_HOME to its folder, or unset it to use the java on PATH",
        ),
        (
            "dnf",
            True,
            JavaFact("/usr/bin/java", version="11.0.2"),
            (
                "dnf install -y java-17-openjdk-devel; then set JAVA_HOME to its folder, "
                "since another java comes first on PATH"
            ),
        ),
    ],
)
def test_the_fix_for_java_fits_the_machine(installer: str | None, is_root: bool, java: JavaFact, fix: str) -> None:
    assert failed(replace(HEALTHY, installer=installer, is_root=is_root, java=java)).fix == fix


@pytest.mark.parametrize(
    ("package", "found", "fix"),
    [
        (
            PackageFact("rocksdict", ">=0.3.29,<0.4", None),
            "not installed",
            "/venv/bin/python -m pip install 'rocksdict>=0.3.29,<0.4'",
        ),
        (
            PackageFact("pyspark", ">=4.3,<4.4", "4.0.1"),
            "4.0.1",
            "/venv/bin/python -m pip install 'pyspark>=4.3,<4.4'",
        ),
        (
            PackageFact("pyarrow", ">=26,<27", "26.0.1", "ImportError: libarrow.so"),
            "26.0.1 cannot be imported: ImportError: libarrow.so",
            "/venv/bin/python -m pip install --force-reinstall 'pyarrow>=26,<27'",
        ),
    ],
)
def test_a_package_names_its_pip_command(package: PackageFact, found: str, fix: str) -> None:
    finding = failed(replace(HEALTHY, packages=(package,)))
    assert (finding.what, finding.found, finding.needed, finding.fix) == (
        package.name,
        found,
        package.requirement,
        fix,
    )


@pytest.mark.parametrize(
    ("version", "requirement", "inside"),
    [
        ("4.3.0", ">=4.3,<4.4", True),
        ("4.3", ">=4.3.0", True),
        ("4.4", ">=4.3,<4.4", False),
        ("4.10", ">=4.9", True),
        ("4.3.0rc1", ">=4.3", True),
        ("20.0.0.20260819", ">=20.0.0.20260819,<21", True),
        ("2.0", "!=2.0.0", False),
        ("2.1", "==2.*", True),
        ("3.1", "!=2.*", True),
        ("2.4.6", "~=2.4", True),
        ("3.0", "~=2.4", False),
        ("2.3", "~=2.4", False),
        ("2.4", ">2.4", False),
        ("2.4", "<=2.4", True),
        ("9", "", True),
    ],
)
def test_a_version_is_compared_as_numbers(version: str, requirement: str, inside: bool) -> None:
    assert version_in_range(version, requirement) is inside


def test_the_disk_must_have_room_and_let_us_write() -> None:
    full = FolderFact(Path("run/checkpoints"), DISK_BYTES_MIN - 1, writable=True)
    assert "df -h run/checkpoints" in failed(replace(HEALTHY, folders=(full,))).fix
    closed = FolderFact(Path("run/checkpoints"), DISK_BYTES_MIN, writable=False)
    assert failed(replace(HEALTHY, folders=(closed,))).found == "not writable"
    for enough in (DISK_BYTES_MIN, None):
        folder = FolderFact(Path("run"), enough, writable=True)
        assert all(finding.ok for finding in check_environment(replace(HEALTHY, folders=(folder,))))


def test_memory_must_suffice_where_the_system_tells_it() -> None:
    assert failed(replace(HEALTHY, memory_bytes=MEMORY_BYTES_MIN - 2**29)).found == "1.5 GiB available"
    for enough in (MEMORY_BYTES_MIN, None):
        assert all(finding.ok for finding in check_environment(replace(HEALTHY, memory_bytes=enough)))


def test_the_report_of_a_healthy_machine_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, HEALTHY)
    out = io.StringIO()
    assert doctor_report(out=out) == 0
    assert out.getvalue().rstrip().endswith("A job can run here.")


def test_the_report_shows_each_fix_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, replace(HEALTHY, java=JavaFact(None), packages=(PackageFact("xxhash", ">=4.1,<5", None),)))
    out = io.StringIO()
    assert doctor_report(out=out) == 1
    lines = out.getvalue().splitlines()
    assert "xxhash: /venv/bin/python -m pip install 'xxhash>=4.1,<5'" in [line.rstrip() for line in lines]
    assert "Java: sudo apt-get install -y openjdk-17-jdk-headless (on newer systems: openjdk-21-jdk-headless)" in lines


def test_without_rich_the_report_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, replace(HEALTHY, packages=(PackageFact("rich", ">=15,<16", None),)))
    real_import = builtins.__import__

    def no_rich(name: str, *arguments: object) -> object:
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", no_rich)
    out = io.StringIO()
    assert doctor_report(out=out) == 1
    assert out.getvalue().splitlines() == [
        "ok       Python: 3.11.7 (needed: 3.11 or later)",
        "ok       Java: 17.0.15 (/usr/bin/java) (needed: a JDK, 17 or later)",
        "MISSING  rich: not installed (needed: >=15,<16)",
        "         fix: /venv/bin/python -m pip install 'rich>=15,<16'",
        "ok       disk at run: 10.0 GiB free (needed: writable, 1.0 GiB free)",
        "ok       memory: 8.0 GiB available (needed: 2.0 GiB available)",
        "ok       user: flights (needed: a name, which Hadoop asks the system for)",
        ("ok       archive of Spark's classes: none: of a test (needed: none; with it, Spark starts faster)"),
        ("ok       sockets of tasks: /tmp/sockets (needed: none; with a folder, tasks begin sooner)"),
    ]


def test_a_run_is_refused_with_the_same_text_as_the_doctors(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(HEALTHY, java=JavaFact(None))
    give(monkeypatch, facts)
    with pytest.raises(RetryableError) as caught:
        require_environment([Path("run")])
    assert str(caught.value).splitlines() == [
        (
            "this machine cannot run the job, so nothing was started. Mend what follows and start again; "
            "`mixedmode doctor` shows the whole check."
        ),
        *plain_report([failed(facts)]).splitlines(),
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_run_on_a_healthy_machine_is_let_through_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, HEALTHY)
    require_environment([])
    assert capsys.readouterr() == ("", "")


def test_the_packages_of_this_environment_are_within_their_ranges() -> None:
    findings = check_environment(gather_facts())
    packages = [finding for finding in findings if finding.what.lower() in {"numpy", "pyarrow", "pyspark", "pyyaml"}]
    assert len(packages) == 4
    assert all(finding.ok for finding in packages), plain_report(packages)


def test_the_command_for_a_user_without_a_name_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, replace(HEALTHY, user=None))
    out = io.StringIO()
    assert doctor_report(out=out) == 1
    assert 'echo "mixedmode:x:$(id -u):$(id -g)::/tmp:/bin/sh" >> /etc/passwd' in out.getvalue()
