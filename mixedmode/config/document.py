"""A job file once it is read: a tree of plain values, and the place that every one of them comes from.

The places outlive the reading, so that whatever finds a fault later (the validation here, or Spark with a step's SQL)
can say where the faulty value stands.
"""

from dataclasses import dataclass, field
from typing import Any

#: from the top of the document: keys, and positions in lists; `()` is the document itself
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value was given. `line` counts from 1, and is 0 where there are no lines (`--set`, the Python API)."""

    place: str
    line: int = 0
    text: str | None = None  # what was written, when the value is a single one

    def __str__(self) -> str:
        return f"{self.place}:{self.line}" if self.line else self.place


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    mark: Mark
    text: str

    def __str__(self) -> str:
        place = str(self.mark)
        if place.startswith("--set ") and self.text.startswith(place.removeprefix("--set ")):
            return f"--set {self.text}"  # the text names the key already
        return f"{place}: {self.text}" if place else self.text


@dataclass(frozen=True, slots=True)
class Document:
    """`values`: nested dicts, lists and single values. `marks`: {dotted path: place}; `""` is the document itself."""

    values: dict[str, Any]
    marks: dict[str, Mark]
    problems: list[Problem] = field(default_factory=list)

    def mark(self, path: Path) -> Mark:
        """The place of `path`, or of the nearest section around it when it was not given at all."""
        while path and path_text(path) not in self.marks:
            path = path[:-1]
        return self.marks[path_text(path)]


def path_text(path: Path) -> str:
    """`steps[0].key-by`: how messages spell a path. A Spark setting is spelled by its full key, which is unique."""
    if len(path) == 2 and path[0] == "spark":
        return str(path[1])
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
