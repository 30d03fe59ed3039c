"""A job file after parsing: a tree of plain values, and the place of each value in its file.

The places are kept after parsing. So the validation here, and later Spark with a step's SQL, can name the line of a
wrong value.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_MARKED = re.compile(r"[^:\n]*:(\d+): ")
_AT_PLACES = re.compile(r"\n(?=[^:\n]*:\d+: )")  # between two such lines

#: keys, and positions in lists, from the top of the document; `()` is the document itself
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """The place of a value. `line` counts from 1; it is 0 for a value without a line (`--set`, the Python API)."""

    place: str
    line: int = 0
    text: str | None = None  # the text as written, for a scalar value

    def __str__(self) -> str:
        return f"{self.place}:{self.line}" if self.line else self.place


@dataclass(frozen=True, slots=True)
class Problem:
    """One error, and its place."""

    mark: Mark
    text: str

    def __str__(self) -> str:
        place = str(self.mark)
        if place.startswith("--set ") and self.text.startswith(place.removeprefix("--set ")):
            return f"--set {self.text}"  # the text names the key already
        return f"{place}: {self.text}" if place else self.text


@dataclass(frozen=True, slots=True)
class Document:
    """`values`: nested dicts, lists and scalars. `marks`: {dotted path: place}; `""` is the document itself.

    is_sql: it was a SQL file, whose steps are known to the user by their names, and not by their numbers.
    """

    values: dict[str, Any]
    marks: dict[str, Mark]
    problems: list[Problem] = field(default_factory=list)
    is_sql: bool = False

    def mark(self, path: Path) -> Mark:
        """Return the place of `path`; if the document does not have it, the place of the nearest section around it."""
        while path and path_text(path) not in self.marks:
            path = path[:-1]
        return self.marks[path_text(path)]

    def where(self, *path: str | int) -> str:
        """Return the start of a message about the setting at `path`: `job.yaml:17: steps[0].sql`, `job.sql:9: query k`.

        The line is that of the section around the setting if the file does not have the setting.
        """
        mark, text = self.mark(path), path_text(path)
        match path:
            case ("steps", int(number), *rest) if self.is_sql:
                setting = path_text(tuple(part for part in rest if part != "sql"))
                text = " ".join(["query", self.values["steps"][number]["name"], *([setting] if setting else [])])
        return f"{mark}: {text}" if mark.place else text


def in_order(messages: Iterable[str]) -> list[str]:
    r"""Return the messages, each once. Those that begin with a place with a line come first, by their lines.

    A message with several lines that begin so is a report, and counts as several messages.

    >>> in_order(["--set name: b", "job.yaml:7: steps[0].sql: c", "job.yaml:2: name: a"])
    ['job.yaml:2: name: a', 'job.yaml:7: steps[0].sql: c', '--set name: b']
    >>> in_order(["job.yaml:8: d\njob.yaml:9: e", "job.yaml:7: c"])
    ['job.yaml:7: c', 'job.yaml:8: d', 'job.yaml:9: e']
    """
    marked = {one: _MARKED.match(one) for message in messages for one in _AT_PLACES.split(message)}
    return sorted(marked, key=lambda message: (0, int(found[1])) if (found := marked[message]) else (1, 0))


def path_text(path: Path) -> str:
    """Return a path as messages spell it: `steps[0].key-by`.

    A Spark setting is spelled by its full key, which is unique.
    """
    if len(path) == 2 and path[0] == "spark":
        return str(path[1])
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
