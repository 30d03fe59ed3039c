"""The house rules, as tests: what a layer may import, how large a file may grow, what must be documented.

A rule is a pure function from files to complaints, so that each rule is itself shown to complain about a
small bad file below. A complaint starts with `path:line`, and says what to do.
"""

import ast
import functools
import gc
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

Files = Mapping[str, str]  # path relative to the root, with forward slashes -> text

# Who may import what. A package not named here may be imported anywhere.
ONLY_FROM = {
    "pyspark": (
        *(
            f"mixedmode/{name}/"
            for name in ("spark", "sources", "sinks", "connectors", "tasks", "analysis", "executor", "driver")
        ),
        *("operators/spark_processor/", "tests/", "bench/"),  # a class of Spark imports pyspark itself
    ),
    "rocksdict": ("mixedmode/state/rocksdb", "tests/", "bench/"),
    "obstore": ("mixedmode/checkpoint/store.py", "mixedmode/checkpoint/remote_objects.py", "tests/", "bench/"),
    "moto": ("tests/",),
    "opentelemetry": ("mixedmode/driver/traces.py", "tests/"),
    "starlette": ("mixedmode/serve/", "tests/"),
    "uvicorn": ("mixedmode/serve/", "tests/"),
    "prometheus_client": ("mixedmode/serve/", "tests/"),
    "psycopg": ("mixedmode/connectors/postgres/", "tests/", "examples/"),
    "duckdb": ("tests/", "bench/"),
    "psutil": ("tests/", "bench/"),
    "matplotlib": ("tests/", "bench/"),
    "mixedmode_bench": ("tests/", "bench/"),
    "mixedmode_services": ("tests/", "bench/"),
}
# The layers, lowest first: a module imports from its own layer and from those below. What shares a line is one layer.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    (
        "changes",
        "clock",
        "counts",
        "crash_points",
        "durations",
        "installed",
        "profile",
        "secrets",
        "system_errors",
        "user_folders",
    ),
    ("folders",),
    ("log",),
    ("keys",),
    ("sort", "time", "expressions"),
    ("checkpoint",),
    ("state",),
    ("operators",),
    ("process",),  # what a user's own classes import
    ("config",),
    ("plan",),
    ("spark_state",),
    ("spark",),
    ("sources", "sinks"),
    ("connectors",),
    ("queryable", "tasks"),
    ("analysis", "executor"),
    ("driver",),
    ("serve",),
    ("job",),
    ("testing", "demo"),
    ("cli",),
    ("__main__",),
)
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# What a layer must not know although it lies below.
NEVER_FROM = {
    "mixedmode/checkpoint/": ("mixedmode.state",),
    "mixedmode/executor/local.py": ("pyspark", "mixedmode.spark"),
    "mixedmode/executor/local_run.py": ("pyspark", "mixedmode.spark"),
    "mixedmode/executor/protocol.py": ("pyspark", "mixedmode.spark"),
    "mixedmode/executor/stage_tasks.py": ("pyspark", "mixedmode.spark"),
    "mixedmode/testing/": (
        *(f"mixedmode.{name}" for name in ("driver", "spark", "sources", "sinks", "checkpoint")),
        *(
            f"mixedmode.connectors.{kind}.{name}"
            for kind in ("files", "kafka", "history")
            for name in ("source", "sink")
        ),
    ),
    "mixedmode/job/": tuple(
        f"mixedmode.{name}" for name in ("spark", "sources", "sinks", "tasks", "analysis", "executor", "state")
    ),
    "mixedmode/": ("tests", "bench", "mixedmode_bench", "mixedmode_services", "operators", "pytest"),
}
# Pure layers are given the time and the randomness that they need.
PURE_MODULES = ("mixedmode/checkpoint/rescale.py", "mixedmode/driver/scaling.py")
NO_CLOCK = ("mixedmode/keys/", "mixedmode/time/", "operators/", "mixedmode/checkpoint/decide.py", *PURE_MODULES)
PYTHON_CALLS = "mixedmode/job/connectors.py"  # Source and Sink have a method for each kind
CLOCKS = ("time", "random", "numpy.random", "secrets", "uuid")

OURS = ("mixedmode/", "operators/", "bench/src/")  # what is installed
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
README_LINES_MAX = 149

IGNORED_FOLDERS = {"run", "build", "dist", "__pycache__", "spark-warehouse"}  # and hidden ones, where there is no git
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~})\]/*-])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me)/")
MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
# Words that no reader knows, and the known ones. A space stands for any space, also between two lines or two strings.
WORDS = {
    r"(?:tak(?:e|es|en|ing)|took)(?: \w+){0,2} back": "retract (a row), roll back (an output)",
    r"change(?: |-)log": "changelog",
    r"giving_(?:previous|stored|every_value)": "with_retractions, with_full_snapshot, with_running_results",
    r"what is(?: \w+)? behind (?:it|them)": "downstream",
    r"rows of a keyed step are none": "a keyed step emits updates without event time",
    r"is_memoryless": "cannot_report_published",
    r"may always begin anew": "a fresh start is always allowed",
    r"lasting(?:_\w+)?|has read stays read": "outputs that cannot be rolled back",
    r"OwnSource|OwnSink|own_classes": "CustomSource, CustomSink, custom_classes",
    r"to be had": "available",
    r"how-manieth": "0-based rank within its group",
    r"in how many pieces": "number of chunks",
    r"names that are no words": "names that are not Python identifiers",
    r"for one that there is not": "for an unknown argument",
    r"minds": "allows",
    r"nothing dear": "nothing expensive",
    r"tak(?:e|es|ing) the place of what is there": "replaces the previous contents",
    r"of whoever": "by any contestant",
    r"told by its headers": "can be identified by its headers",
    r"comes? to rest": "converges",
}
BETWEEN_WORDS = r"""(?:[\s#*"']|f(?=["']))+"""
ANY_WORD = re.compile(
    rf"\b(?<!-)(?:{'|'.join(f'({words})' for words in WORDS)})(?![\w-])".replace(" ", BETWEEN_WORDS), re.IGNORECASE
)
MAY_USE_ANY_WORD = {
    "LICENSE",  # a text of others
    "tests/test_house_rules.py",  # the list itself
}
ONLY_SEE = re.compile(r"See [\w. ]+[.:]")
QUESTION = re.compile(r"(?:Where|Which|What|How|Whether|Whatever|Who|Why)\b")
CITED_FILE = re.compile(r"(?<![\w/.-])(?:docs|tests|mixedmode|operators|bench)/[\w./-]*\w\.(?:md|py|yaml|toml)\b")


# --- the rules -------------------------------------------------------------------------------------------------------


def import_complaints(files: Files) -> Iterator[str]:
    """Imports that the importing layer must not know, also those inside functions and under TYPE_CHECKING."""
    for path, tree in parsed(files):
        for name, line in imports_of(tree):
            for package, places in ONLY_FROM.items():
                if is_within(name, package) and not path.startswith(places):
                    yield f"{path}:{line} imports {name}; only {', '.join(places)} may import {package}"
            for layer, banned in NEVER_FROM.items():
                if path.startswith(layer) and any(is_within(name, package) for package in banned):
                    yield f"{path}:{line} imports {name}; {layer} must not know it"
            if path.startswith(NO_CLOCK) and any(is_within(name, clock) for clock in CLOCKS):
                yield f"{path}:{line} imports {name}; take the clock or the generator as an argument"


def layer_complaints(files: Files) -> Iterator[str]:
    """Imports of a layer above, and packages that have no place among the layers."""
    for path, tree in parsed(only(files, "mixedmode/", "operators/")):
        own = layer_of(module_of(path))
        if own is None:
            continue
        if own not in RANKS:
            yield f"{path}:1 belongs to {own}, which has no place in LAYERS; give it one"
            continue
        for name, line in imports_of(tree):
            other = layer_of(name)
            if other is not None and other != own and RANKS.get(other, -1) >= RANKS[own]:
                yield f"{path}:{line} imports {name}; {own} lies below {other}, or beside it, and must not know it"


def connector_complaints(files: Files) -> Iterator[str]:
    """Connectors that import each other, and code that knows a kind. What several kinds need is in sources and sinks.

    The engine stages and reads Parquet files itself, so it knows the kind `files`. Everything else asks the registry.
    """
    for path, tree in parsed(only(files, "mixedmode/")):
        if not path.startswith("mixedmode/connectors/"):
            for name, line in imports_of(tree):
                if connector_of(name) not in {None, "files"} and path != PYTHON_CALLS:
                    yield f"{path}:{line} imports {name}; only the registry may know a connector"
            continue
        for name, line in imports_of(tree):
            own, other = connector_of(module_of(path)), connector_of(name)
            if own is not None and other is not None and own != other:
                yield f"{path}:{line} imports {name}; a connector must not know another one"


def connector_of(name: str) -> str | None:
    """The kind that a module belongs to; None for what all kinds have in common, and for other modules."""
    match name.split("."):
        case ["mixedmode", "connectors", str(kind), *_] if (ROOT / "mixedmode" / "connectors" / kind).is_dir():
            return kind
    return None


def circle_complaints(files: Files) -> Iterator[str]:
    """Files that import each other, directly or through others."""
    modules = {module_of(path): path for path in only(files, "mixedmode/", "operators/") if path.endswith(".py")}
    graph = {
        name: {found for target, _ in imports_of(parse(files[path], path)) if (found := nearest(target, modules))}
        for name, path in modules.items()
    }
    while leaves := {name for name, targets in graph.items() if not (targets - {name}) & graph.keys()}:
        graph = {name: targets for name, targets in graph.items() if name not in leaves}
    circles = {name for name in graph if reaches(name, name, graph)}
    yield from (
        f"{modules[name]}:1 imports itself through others: one of {', '.join(sorted(circles))}" for name in circles
    )


def sleep_complaints(files: Files) -> Iterator[str]:
    """Tests that wait for time to pass instead of for something to happen."""
    for path, tree in parsed(only(files, "tests/")):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "sleep" and ast.unparse(node) == "time.sleep":
                yield f"{path}:{node.lineno} uses time.sleep; inject the clock, or wait for the event itself"
            if isinstance(node, ast.ImportFrom) and node.module == "time" and "sleep" in {a.name for a in node.names}:
                yield f"{path}:{node.lineno} imports sleep; inject the clock, or wait for the event itself"


def scratch_complaints(files: Files) -> Iterator[str]:
    """Temporary folders that stay on the disk if a job is killed. Those of a user's tests do no harm."""
    for path, tree in parsed(only(files, "mixedmode/", "operators/")):
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and "mixedmode/testing/" not in path)
        for call in calls:
            name = ast.unparse(call.func).split(".")[-1]
            has_place = any(given.arg == "dir" for given in call.keywords)
            if name in {"TemporaryDirectory", "mkdtemp", "NamedTemporaryFile", "mkstemp"} and not has_place:
                yield f"{path}:{call.lineno} uses {name} without `dir`; use checkpoint.locked_folder.temporary_folder"


def size_complaints(files: Files) -> Iterator[str]:
    """Modules and functions that have outgrown one idea, and a README that nobody reads to its end."""
    for path, tree in parsed(files):
        lines = len(files[path].splitlines())
        if not path.startswith("tests/") and lines > MODULE_LINES_MAX:
            yield f"{path}:1 has {lines} lines, allowed are {MODULE_LINES_MAX}; move its second idea to its own module"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    yield f"{path}:{node.lineno} {node.name} has {length} lines, allowed are {FUNCTION_LINES_MAX}"
    lines = len(files.get("README.md", "").splitlines())
    if lines > README_LINES_MAX:
        yield f"README.md:1 has {lines} lines, allowed are {README_LINES_MAX}; move what few readers need to docs"


def docstring_complaints(files: Files) -> Iterator[str]:
    """Public modules, classes and functions without a docstring."""
    for path, tree in parsed(only(files, *OURS)):
        if any(part.startswith("_") and part != "__init__.py" for part in path.split("/")):
            continue
        if ast.get_docstring(tree) is None:
            yield f"{path}:1 has no docstring; say what the module is, its one idea, its invariants"
        defined = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        for node in defined:
            if not node.name.startswith("_") and ast.get_docstring(node) is None:
                yield f"{path}:{node.lineno} {node.name} is public and has no docstring"


def reference_docstring_complaints(files: Files) -> Iterator[str]:
    """Docstrings that say nothing but where to look, and those that are no sentence, as they open with a question."""
    for path, tree in parsed(files):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            text, place = ast.get_docstring(node) or "", f"{path}:{getattr(node, 'lineno', 1)}"
            if ONLY_SEE.match(text):
                yield f"{place} only points elsewhere; use @override, or say what it does"
            if QUESTION.match(text):
                yield f"{place} opens with {text.split()[0]}; begin with a verb, or with the noun that is described"


def word_complaints(files: Files) -> Iterator[str]:
    """Words that have a better known one."""
    for path, text in files.items():
        for match in ANY_WORD.finditer(text) if path not in MAY_USE_ANY_WORD else ():
            number, known = text.count("\n", 0, match.start()) + 1, [*WORDS.values()][(match.lastindex or 0) - 1]
            yield f"{path}:{number} says {' '.join(match[0].split())!r}; write: {known}"


def text_complaints(files: Files) -> Iterator[str]:
    """Marks of unfinished work, and paths that exist on one machine only."""
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if UNFINISHED.search(line):
                yield f"{path}:{number} is marked as unfinished; finish it, or file an issue: {line.strip()[:80]}"
            if MACHINE_PATH.search(line):
                yield f"{path}:{number} names a path of one machine; make it relative: {line.strip()[:80]}"


def reference_complaints(files: Files) -> Iterator[str]:
    """Links in Markdown and files cited in Python that do not exist."""
    known = set(files) | {str(parent) for path in files for parent in Path(path).parents}
    for path, text in files.items():
        if path.endswith(".md"):
            for target in MARKDOWN_LINK.findall(FENCE.sub("", text)):
                if not is_alive(target, path, files, known):
                    yield f"{path}:{line_of(text, target)} links to {target}, which does not exist"
        if path.endswith(".py") and path != "tests/test_house_rules.py":
            for target in CITED_FILE.findall(text):
                if target not in known:
                    yield f"{path}:{line_of(text, target)} cites {target}, which does not exist"


# --- what they read --------------------------------------------------------------------------------------------------


def project_files(root: Path) -> dict[str, str]:
    """Text of every file that belongs to the project: what git tracks or would track; without git, the whole tree."""
    files = {}
    for path in tracked_paths(root) or walked_paths(root):
        try:
            files[path] = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            files[path] = ""  # binary: a document may link to it
        except (FileNotFoundError, IsADirectoryError):
            continue  # deleted and not yet committed, or a submodule
    return files


def tracked_paths(root: Path) -> list[str]:
    """Paths that git lists, or none if there is no git, or no repository whose top is `root`."""
    if not (root / ".git").exists():
        return []
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return sorted({path for path in done.stdout.split("\0") if path})


def walked_paths(root: Path) -> list[str]:
    """All files below `root` but those in folders that hold no source."""
    found = []
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        folders = set(parts[:-1]) - {".ci"}
        if path.is_file() and not any(name in IGNORED_FOLDERS or name.startswith(".") for name in folders):
            found.append("/".join(parts))
    return found


def only(files: Files, *prefixes: str) -> Files:
    return {path: text for path, text in files.items() if path.startswith(prefixes)}


parse = functools.cache(ast.parse)  # each rule reads every file


def parsed(files: Files) -> Iterator[tuple[str, ast.Module]]:
    for path, text in files.items():
        if path.endswith(".py"):
            yield path, parse(text, path)


def imports_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(full dotted name, line) of each absolute import; `from a import b` is a.b, since b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def layer_of(name: str) -> str | None:
    """The layer of a module; None for what is not ours, and for the package `mixedmode` itself."""
    first, *rest = name.split(".")
    return rest[0] if first == "mixedmode" and rest and rest[0] != "__init__" and not rest[0][0].isupper() else None


def module_of(path: str) -> str:
    """The dotted name of a Python file. The folder operators/ is the package mixedmode.operators."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"mixedmode.{name}" if name.split(".")[0] == "operators" else name


def nearest(name: str, modules: Mapping[str, str]) -> str | None:
    """The module that `from a import b` loads: a.b if that is one, else a."""
    return name if name in modules else next((n for n in (name.rpartition(".")[0],) if n in modules), None)


def reaches(start: str, end: str, graph: Mapping[str, set[str]]) -> bool:
    """Return whether imports lead from one module to another, by at least one step."""
    seen: set[str] = set()
    todo = list(graph.get(start, ()))
    while todo:
        name = todo.pop()
        if name == end:
            return True
        if name not in seen:
            seen.add(name)
            todo += graph.get(name, ())
    return False


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def line_of(text: str, target: str) -> int:
    return text[: text.index(target)].count("\n") + 1


def is_alive(target: str, path: str, files: Files, known: set[str]) -> bool:
    """Return whether a link leads somewhere: outward links are taken on trust, files and headings must exist."""
    if re.match(r"[a-z]+:", target):
        return True
    name, _, anchor = target.partition("#")
    there = Path(path).parent / name if name else Path(path)
    normal = Path(*collapsed(there)).as_posix()
    if normal not in known:
        return False
    return not anchor or normal not in files or not normal.endswith(".md") or anchor in headings(files[normal])


def collapsed(path: Path) -> list[str]:
    """Parts of a path without `.` and `..`; one that leaves the root keeps its `..`, and so matches nothing."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return parts


def headings(markdown: str) -> set[str]:
    """The anchors that a Markdown viewer gives to the headings."""
    titles = re.findall(r"^#+\s+(.*?)\s*#*$", FENCE.sub("", markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


# --- the project obeys them ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _trees_are_not_searched_for_garbage() -> Iterator[None]:
    """Trees of all files are millions of objects, and all of them stay until the last rule has read them."""
    gc.disable()
    yield
    parse.cache_clear()
    gc.enable()


@pytest.fixture(scope="module")
def files() -> Files:
    return project_files(ROOT)


def agree(complaints: Iterator[str]) -> None:
    found = sorted(complaints)
    assert not found, "\n" + "\n".join(found)


def test_each_layer_imports_only_what_it_may_know(files: Files) -> None:
    agree(import_complaints(files))


def test_arrows_between_layers_point_down(files: Files) -> None:
    agree(layer_complaints(files))


def test_no_connector_knows_another_one(files: Files) -> None:
    agree(connector_complaints(files))


def test_no_files_import_each_other(files: Files) -> None:
    agree(circle_complaints(files))


def test_no_test_sleeps(files: Files) -> None:
    agree(sleep_complaints(files))


def test_no_temporary_folder_outlives_a_kill_and_the_next_start(files: Files) -> None:
    agree(scratch_complaints(files))


def test_modules_and_functions_are_no_larger_than_one_idea(files: Files) -> None:
    agree(size_complaints(files))


def test_everything_public_is_documented(files: Files) -> None:
    agree(docstring_complaints(files))


def test_every_docstring_says_something_itself(files: Files) -> None:
    agree(reference_docstring_complaints(files))


def test_words_are_those_that_readers_know(files: Files) -> None:
    agree(word_complaints(files))


def test_nothing_is_left_unfinished_or_bound_to_one_machine(files: Files) -> None:
    agree(text_complaints(files))


def test_every_reference_leads_somewhere(files: Files) -> None:
    agree(reference_complaints(files))


# --- and each rule complains about what it is there for --------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code", "complaint"),
    [
        ("mixedmode/keys/hash.py", "import pyspark.sql", "imports pyspark.sql; only mixedmode/spark/"),
        ("mixedmode/cli/run.py", "def f():\n    from pyspark import sql", "mixedmode/cli/run.py:2 imports pyspark.sql"),
        ("mixedmode/state/batch/store.py", "import rocksdict", "only mixedmode/state/rocksdb"),
        ("mixedmode/checkpoint/gc.py", "from obstore import put", "only mixedmode/checkpoint/store.py"),
        ("mixedmode/testing/epoch.py", "from mixedmode import sinks", "mixedmode/testing/ must not know it"),
        ("mixedmode/testing/epoch.py", "import mixedmode.connectors.kafka.sink", "mixedmode/testing/ must not know it"),
        ("mixedmode/job/api.py", "from mixedmode.sinks.open import open_sink", "mixedmode/job/ must not know it"),
        ("mixedmode/errors.py", "import tests.helpers", "mixedmode/ must not know it"),
        ("mixedmode/executor/local.py", "def f():\n    import pyspark", "mixedmode/executor/local.py must not know it"),
        ("mixedmode/executor/protocol.py", "from pyspark.sql import DataFrame", "protocol.py must not know it"),
        ("mixedmode/time/timers.py", "import time", "take the clock or the generator as an argument"),
    ],
)
def test_a_forbidden_import_is_found(path: str, code: str, complaint: str) -> None:
    (found,) = import_complaints({path: code})
    assert complaint in found


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("mixedmode/spark/session.py", "import pyspark"),
        ("mixedmode/analysis/catalyst.py", "from pyspark.sql import DataFrame"),
        ("mixedmode/state/rocksdb/store.py", "import rocksdict"),
        ("mixedmode/checkpoint/store.py", "import obstore"),
        ("mixedmode/sort/order.py", "from mixedmode.keys import encode\nimport numpy"),
        ("mixedmode/time/timers.py", "from mixedmode.time.watermark import Watermark"),
        ("mixedmode/sinks/files.py", "import pyspark_like_name"),
    ],
)
def test_an_allowed_import_is_let_through(path: str, code: str) -> None:
    agree(import_complaints({path: code}))


@pytest.mark.parametrize(
    ("path", "code", "complaint"),
    [
        ("mixedmode/sort/runs.py", "from mixedmode import state", "sort lies below state"),
        ("mixedmode/sort/runs.py", "from mixedmode.time import windows", "sort lies below time, or beside it"),
        (
            "operators/aggregate/plan.py",
            "from mixedmode.driver.epochs import EpochRunner",
            "operators lies below driver",
        ),
        ("mixedmode/executor/spark.py", "from mixedmode.driver import epochs", "executor lies below driver"),
        (
            "mixedmode/sinks/files.py",
            "def f():\n    import mixedmode.tasks.rows",
            "sinks/files.py:2 imports mixedmode.tasks",
        ),
        ("mixedmode/connectors/kafka/sink.py", "from mixedmode import tasks", "connectors lies below tasks"),
        ("mixedmode/connectors/kafka/sink.py", "import mixedmode.driver.run", "connectors lies below driver"),
        ("mixedmode/sinks/open.py", "import mixedmode.connectors.kafka.kind", "sinks lies below connectors"),
        ("mixedmode/sources/open.py", "import mixedmode.connectors.kafka.kind", "sources lies below connectors"),
        ("mixedmode/config/spec.py", "from mixedmode.connectors.kafka import kind", "config lies below connectors"),
        ("mixedmode/driver/run.py", "from mixedmode.job import api", "driver lies below job"),
        ("mixedmode/attic/a.py", "import os", "attic, which has no place in LAYERS"),
    ],
)
def test_an_arrow_that_points_up_is_found(path: str, code: str, complaint: str) -> None:
    (found,) = layer_complaints({path: code})
    assert complaint in found


@pytest.mark.parametrize(
    ("path", "code", "is_found"),
    [
        ("mixedmode/connectors/kafka/sink.py", "from mixedmode.connectors.files.kind import KIND", True),
        ("mixedmode/connectors/history/source.py", "def f():\n    import mixedmode.connectors.kafka.source", True),
        ("mixedmode/connectors/kafka/sink.py", "from mixedmode.connectors.kafka.kind import KIND", False),
        ("mixedmode/connectors/kafka/calls.py", "from mixedmode.connectors.calls import checked", False),
        ("mixedmode/job/connectors.py", "from mixedmode.connectors.kafka.calls import KafkaSinks", False),
        ("mixedmode/job/api.py", "from mixedmode.connectors.kafka.calls import KafkaSinks", True),
        ("mixedmode/driver/reach.py", "from mixedmode.connectors.postgres.sink import postgres_table", True),
        ("mixedmode/driver/planning.py", "from mixedmode.connectors.files.sink import file_layout", False),
        ("mixedmode/driver/engine.py", "from mixedmode.connectors import CustomSource", False),
    ],
)
def test_a_connector_that_knows_another_one_is_found(path: str, code: str, is_found: bool) -> None:
    assert len(list(connector_complaints({path: code}))) == is_found


def test_files_that_import_each_other_are_found() -> None:
    files = {
        "operators/a.py": "from mixedmode.operators import b",
        "operators/b.py": "def f():\n    from mixedmode.operators.c import g",
        "operators/c.py": "import mixedmode.operators.a\nimport mixedmode.operators.d",
        "operators/d.py": "import os",
    }
    assert {text.split(":")[0] for text in circle_complaints(files)} == {f"operators/{name}.py" for name in "abc"}


@pytest.mark.parametrize(
    "code", ["import time\ntime.sleep(1)", "import time\n\nnap = time.sleep", "from time import sleep"]
)
def test_a_sleeping_test_is_found(code: str) -> None:
    assert len(list(sleep_complaints({"tests/test_a.py": code}))) == 1
    assert not list(sleep_complaints({"mixedmode/demo/feed.py": code})), "only tests must not sleep"


@pytest.mark.parametrize("call", ["tempfile.mkdtemp()", "TemporaryDirectory(prefix='a')"])
def test_a_temporary_folder_without_a_place_is_found(call: str) -> None:
    assert len(list(scratch_complaints({"mixedmode/tasks/rows.py": f"with {call} as folder: pass"}))) == 1
    placed = call.replace("(", "(dir=folder, ", 1)
    assert not list(scratch_complaints({"mixedmode/tasks/rows.py": f"with {placed} as part: pass"}))


def test_a_large_module_and_a_large_function_are_found() -> None:
    lines = "x = 1\n" * (MODULE_LINES_MAX + 1)
    function = "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX
    assert list(size_complaints({"mixedmode/a.py": lines})) == [
        "mixedmode/a.py:1 has 401 lines, allowed are 400; move its second idea to its own module"
    ]
    assert list(size_complaints({"tests/a.py": lines + function})) == ["tests/a.py:402 f has 71 lines, allowed are 70"]


def test_a_long_readme_is_found() -> None:
    assert not list(size_complaints({"README.md": "x\n" * README_LINES_MAX}))
    assert len(list(size_complaints({"README.md": "x\n" * (README_LINES_MAX + 1)}))) == 1


def test_what_is_public_and_has_no_docstring_is_found() -> None:
    code = "def f(): ...\ndef _g(): ...\nclass C: ...\nclass D:\n    'Documented.'\n"
    assert sorted(docstring_complaints({"operators/a.py": code, "operators/_b.py": code, "tests/c.py": code})) == [
        "operators/a.py:1 f is public and has no docstring",
        "operators/a.py:1 has no docstring; say what the module is, its one idea, its invariants",
        "operators/a.py:3 C is public and has no docstring",
    ]


@pytest.mark.parametrize(
    "text", ["See Sink.", "See state.Backend. Keeps nothing.", "See Sink: it prints.", "See the module."]
)
def test_a_docstring_that_only_points_elsewhere_is_found(text: str) -> None:
    for code in (f"class A:\n    def f(self):\n        {text!r}\n", f"class A:\n    {text!r}\n"):
        assert len(list(reference_docstring_complaints({"tests/a.py": code}))) == 1


@pytest.mark.parametrize("text", ["Where it runs.", "Whether it runs.", "What runs, and how.", "How: by a thread."])
def test_a_docstring_that_opens_with_a_question_is_found(text: str) -> None:
    for code in (f"{text!r}\n", f"class A:\n    def f(self):\n        {text!r}\n", f"class A:\n    {text!r}\n"):
        assert len(list(reference_docstring_complaints({"tests/a.py": code}))) == 1


def test_a_docstring_may_point_elsewhere_after_it_has_said_something() -> None:
    agree(reference_docstring_complaints({"tests/a.py": "def f():\n    'Print. See Sink.'\n    # See Sink.\n"}))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x\na row is taken back\n", "docs/a.md:2 says 'taken back'; write: retract (a row), roll back (an output)"),
        ("took the row back", "docs/a.md:1 says 'took the row back'; write: retract"),
        ('"none is to "\n    f"be had"', "write: available"),
        ("# none is to be\n# had", "write: available"),
        ("self.lasting_outputs", "says 'lasting_outputs'"),
        ("Minds", "write: allows"),
    ],
)
def test_a_word_that_no_reader_knows_is_found(text: str, complaint: str) -> None:
    (found,) = word_complaints({"docs/a.md": text})
    assert complaint in found


@pytest.mark.parametrize("text", ["back and forth", "take part. Back up", "reminds", "long-lasting", "to be hadoop"])
def test_a_word_that_only_looks_alike_is_let_through(text: str) -> None:
    agree(word_complaints({"docs/a.md": text}))


@pytest.mark.parametrize(
    "line",
    [
        "# TO" + "DO: later",
        "x = 1  # FIX" + "ME",
        "see /ro" + "ot/x",
        "path='/wo" + "rk/main'",
    ],
)
def test_unfinished_work_and_machine_paths_are_found(line: str) -> None:
    assert len(list(text_complaints({"README.md": line}))) == 1


@pytest.mark.parametrize(
    "line", ["a todo list", "./run/work/x", "{tox_root}/wo" + "rk/x", "frame/ro" + "ot/", "/workspace"]
)
def test_ordinary_text_is_let_through(line: str) -> None:
    agree(text_complaints({"README.md": line}))


def test_dead_links_and_citations_are_found() -> None:
    files = {
        "docs/a.md": "# One idea\n[up](../README.md) [gone](b.md) [out](../../x.md) [here](#one-idea) [no](#two-ideas)",
        "README.md": "[folder](docs) [web](https://example.org) [at](docs/a.md#one-idea)\n```\n[not](a-link)\n```\n",
        "mixedmode/a.py": '"""See docs/a.md and docs/b.md; Flink, runtime/tests/x.py."""',
    }
    assert sorted(reference_complaints(files)) == [
        "docs/a.md:2 links to #two-ideas, which does not exist",
        "docs/a.md:2 links to ../../x.md, which does not exist",
        "docs/a.md:2 links to b.md, which does not exist",
        "mixedmode/a.py:1 cites docs/b.md, which does not exist",
    ]


def test_without_git_the_tree_is_walked(tmp_path: Path) -> None:
    for name in (
        "mixedmode/a.py",
        ".venv/lib/b.py",
        "run/c.md",
        "tests/__pycache__/d.py",
        ".ruff_cache/e.py",
        "README.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    assert project_files(tmp_path) == {"README.md": "x = 1\n", "mixedmode/a.py": "x = 1\n", "picture.png": ""}
