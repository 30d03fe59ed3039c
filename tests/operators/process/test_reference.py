"""The function of a step is loaded by name where it is needed, and refused with a reason where it is missing."""

import importlib
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mixedmode.errors import InvalidJobError
from mixedmode.operators import classes
from mixedmode.operators.classes import GivenClass, NamedClass, file_of
from mixedmode.operators.process import PROCESS_FUNCTION, KeyedProcessFunction, Record

SOURCE = """
from mixedmode.process import KeyedProcessFunction

class Limit(KeyedProcessFunction):
    def __init__(self, most: int, *, name: str = "{name}"):
        if most < 0:
            raise ValueError("most is negative")
        self.most, self.name = most, name

    class Inner(KeyedProcessFunction):
        pass

NOT_A_FUNCTION = 5
"""


@pytest.fixture(autouse=True)
def _path_as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, name: str = "first", module: str = "user_functions") -> str:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{module}.py").write_text(SOURCE.format(name=name))
    return str(folder)


def test_a_function_is_made_from_a_file_next_to_the_job(tmp_path: Path) -> None:
    reference = PROCESS_FUNCTION.named("user_functions:Limit", {"most": 3}, write(tmp_path))
    assert reference == NamedClass(PROCESS_FUNCTION, "user_functions", "Limit", {"most": 3}, str(tmp_path))
    assert reference.label == "user_functions:Limit"
    function = pickle.loads(pickle.dumps(reference)).create()
    assert (function.most, function.name) == (3, "first")
    assert file_of(function) == str(tmp_path / "user_functions.py")


def test_a_nested_class_can_be_named(tmp_path: Path) -> None:
    reference = PROCESS_FUNCTION.named("user_functions:Limit.Inner", folder=write(tmp_path))
    assert type(reference.create()).__qualname__ == "Limit.Inner"


def test_each_create_gives_an_object_of_its_own(tmp_path: Path) -> None:
    reference = PROCESS_FUNCTION.named("user_functions:Limit", {"most": 3}, write(tmp_path))
    assert reference.create() is not reference.create()
    assert type(reference.create()) is type(reference.create())


def test_a_relative_folder_is_imported_from_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    reference = PROCESS_FUNCTION.named("user_functions:Limit", {"most": 3}, ".")
    assert type(reference.create()) is type(reference.create())


def test_two_jobs_may_have_modules_of_one_name(tmp_path: Path) -> None:
    folders = [write(tmp_path / name, name) for name in ("first", "second")]
    for folder in (*folders, *folders):
        reference = PROCESS_FUNCTION.named("user_functions:Limit", {"most": 1}, folder)
        assert reference.create().name == Path(folder).name  # type: ignore[union-attr]


@pytest.mark.parametrize("has_init", [False, True])
def test_two_jobs_may_have_packages_of_one_name(tmp_path: Path, *, has_init: bool) -> None:
    """Also if they have no __init__.py, which makes one package of both; a module of the package imports another."""
    for name in ("first", "second"):
        package = tmp_path / name / "user_package"
        write(package.parent, name)
        write(package, name, "functions")
        (package / "named.py").write_text("from user_package.functions import Limit\n")
        if has_init:
            (package / "__init__.py").touch()
    for name in ("first", "second", "first", "second"):
        for module in ("user_package.functions", "user_package.named"):
            reference = PROCESS_FUNCTION.named(f"{module}:Limit", {"most": 1}, str(tmp_path / name))
            assert reference.create().name == name  # type: ignore[union-attr]


def test_a_package_with_init_py_takes_the_place_of_one_without(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write(tmp_path / name / "user_package", name, "functions")
    (tmp_path / "second" / "user_package" / "__init__.py").touch()
    for name in ("first", "second"):
        reference = PROCESS_FUNCTION.named("user_package.functions:Limit", {"most": 1}, str(tmp_path / name))
        assert reference.create().name == name  # type: ignore[union-attr]


def test_a_package_without_init_py_that_another_one_hides_is_refused(tmp_path: Path) -> None:
    """Python would load the other one, which is that of another job, and no path of imports would help."""
    for name in ("first", "second"):
        write(tmp_path / name / "user_package", name, "functions")
    (tmp_path / "first" / "user_package" / "__init__.py").touch()
    first = PROCESS_FUNCTION.named("user_package.functions:Limit", {"most": 1}, str(tmp_path / "first"))
    assert first.create().name == "first"  # type: ignore[union-attr]
    second = PROCESS_FUNCTION.named("user_package.functions:Limit", {"most": 1}, str(tmp_path / "second"))
    with pytest.raises(InvalidJobError, match=f"Add an __init__.py .* hidden by={tmp_path / 'first'}"):
        second.create()


@pytest.mark.parametrize("has_init", [False, True])
def test_an_installed_package_stays_as_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_init: bool
) -> None:
    """Jobs of other folders name it; one of these has data in a folder of its name."""
    package = tmp_path / "installed" / "user_package"
    write(package, "installed", "functions")
    write(package, "installed", "others")
    if has_init:
        (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "installed")
    (tmp_path / "second" / "user_package").mkdir(parents=True)
    (tmp_path / "first").mkdir()
    loaded = {name: importlib.import_module(f"user_package.{name}") for name in ("functions", "others")}
    for folder in ("first", "second", "first"):
        reference = PROCESS_FUNCTION.named("user_package.functions:Limit", {"most": 1}, str(tmp_path / folder))
        assert reference.load() is loaded["functions"].Limit
        assert sys.modules["user_package.others"] is loaded["others"]


def test_a_module_that_is_loaded_is_not_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every subtask of every epoch asks for its class, and clearing Python's caches of folders is slow."""
    write(tmp_path)
    write(tmp_path / "user_package", module="functions")
    for module in ("user_functions", "user_package.functions"):
        reference = PROCESS_FUNCTION.named(f"{module}:Limit", {"most": 1}, str(tmp_path))
        first = reference.load()
        with monkeypatch.context() as patch:
            patch.setattr(importlib, "invalidate_caches", lambda: pytest.fail("looked for again"))
            assert reference.load() is first


def test_two_jobs_may_have_modules_of_one_name_beside_those_that_they_name(tmp_path: Path) -> None:
    folders = [write(tmp_path / name, name) for name in ("first", "second")]
    for folder in folders:
        name = f"functions_of_{Path(folder).name}"
        (Path(folder) / f"{name}.py").write_text("from user_functions import Limit\n")
        reference = PROCESS_FUNCTION.named(f"{name}:Limit", {"most": 1}, folder)
        assert reference.create().name == Path(folder).name  # type: ignore[union-attr]


@pytest.mark.parametrize("folders", [set(), {str(Path(classes.__file__).absolute().parents[2])}])
def test_this_program_stays_though_a_folder_has_a_module_of_its_name(
    folders: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a job in the folder of this program."""
    monkeypatch.setattr(classes, "_FOLDERS", folders)
    folder = write(tmp_path)
    (tmp_path / "mixedmode.py").write_text("raise AssertionError")
    ours = sys.modules["mixedmode"]
    PROCESS_FUNCTION.named("user_functions:Limit", {"most": 1}, folder).create()
    assert sys.modules["mixedmode"] is ours


@pytest.mark.parametrize(
    "text", ["", "module", "module:", ":Class", "a b:Class", "module:Class()", "./m.py:Class", "a::b"]
)
def test_what_names_no_function_is_refused(text: str) -> None:
    with pytest.raises(InvalidJobError, match=re.escape("Write `package.module:Class`. process=" + text)):
        PROCESS_FUNCTION.named(text)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("no_such_module:Limit", {}, "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("broken_functions:Limit", {}, "cannot be imported: SyntaxError"),
        (
            "user_functions:Missing",
            {},
            "no process function of this name. .* process=user_functions:Missing, file=.*Limit",
        ),
        ("user_functions:NOT_A_FUNCTION", {}, "this is no process function. .* found=5"),
        (
            "user_functions:Limit.missing.more",
            {},
            "no process function of this name. .* process=user_functions:Limit.missing.more, ",
        ),
        (
            "user_functions:Limit",
            {},
            "the arguments do not fit the process function: missing a required argument: 'most'",
        ),
        (
            "user_functions:Limit",
            {"most": 1, "x": 2},
            "got an unexpected keyword argument 'x'. .* args={'most': 1, 'x': 2}",
        ),
        ("user_functions:Limit", {"most": -1}, "the process function cannot be made: ValueError: most is negative"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused_with_the_reason(
    tmp_path: Path, text: str, args: dict[str, object], message: str
) -> None:
    folder = write(tmp_path)
    (tmp_path / "broken_functions.py").write_text("def (")
    with pytest.raises(InvalidJobError, match=message):
        PROCESS_FUNCTION.named(text, args, folder).create()


def test_a_class_at_hand_need_not_be_importable() -> None:
    class Local(KeyedProcessFunction):
        def __init__(self, n: int = 1) -> None:
            self.n = n

    function = GivenClass(PROCESS_FUNCTION, Local, {"n": 5}).create()
    assert isinstance(function, Local)
    assert function.n == 5
    assert GivenClass(PROCESS_FUNCTION, Local).label.endswith("Local")
    with pytest.raises(InvalidJobError, match="the arguments do not fit"):
        GivenClass(PROCESS_FUNCTION, Local, {"m": 5}).create()


def test_a_function_without_its_method_is_told_so() -> None:
    record: Record = {}
    with pytest.raises(NotImplementedError, match="KeyedProcessFunction has no method process_element"):
        KeyedProcessFunction().process_element(record, None)  # type: ignore[arg-type]
