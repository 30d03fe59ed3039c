r"""Hadoop's glob patterns: the parts of a path that are patterns, the names that they match, and how to escape a path.

In a path that Spark reads, `*` and `?` match any characters, `[ab]` one of some, `{a,b}` one of several texts, which
may contain slashes, and `\` escapes the character after it. A file's name may contain all of these characters. So this
module cuts a path in two: its literal part, as long as folders and files with exactly these names exist, and the
pattern after it.

Invariants (tests/config/test_globs.py):
  I1  a path of which everything exists has no pattern, whatever characters are in it
  I2  `escaped(path)` as a pattern matches `path` and no other path
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

#: a path with one of these characters is a pattern to Spark
_MAGIC = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class InputPath:
    """A path of input. `literal` has no patterns; `parts` are the components after it, () if there is no pattern."""

    literal: str
    parts: tuple[str, ...] = ()

    @property
    def has_pattern(self) -> bool:
        """Return whether the path may match several paths."""
        return bool(self.parts)

    def matches(self, names: tuple[str, ...]) -> bool:
        """Return whether the parts match these names below `literal`.

        The longer of the two is compared only in part.
        """
        return all(pattern_of(part).fullmatch(name) for part, name in zip(self.parts, names, strict=False))


def has_magic(path: str) -> bool:
    """Return whether Spark treats the path as a pattern."""
    return not _MAGIC.isdisjoint(path)


def escaped(path: str) -> str:
    r"""Return the pattern that matches this path alone, which is the path itself if it has no special character.

    >>> escaped("/run[12]/in")
    '/run\\[12\\]/in'
    """
    return "".join(f"\\{letter}" if letter in _MAGIC else letter for letter in path)


def input_path(path: str, exists: Callable[[str], bool]) -> InputPath:
    """Cut an absolute path, or a URL, into its literal part and its pattern. `exists` is called with whole paths.

    >>> input_path("/data/run[12]/*.json", lambda path: path == "/data/run[12]")
    InputPath(literal='/data/run[12]', parts=('*.json',))
    """
    scheme, _, rest = path.rpartition("://")
    root = f"{scheme}://" if scheme else "/"
    names = [name for name in rest.split("/") if name]
    literal = root
    for number, name in enumerate(names):
        longer = literal + ("" if literal == root else "/") + name
        if has_magic(name) and not exists(longer):
            return InputPath(literal, tuple(part for part in _components("/".join(names[number:])) if part))
        literal = longer
    return InputPath(literal)


def alternatives(path: InputPath) -> list[InputPath]:
    """Return the paths for the choices of `{a,b/c}` that contain slashes, so that each part is one name.

    Example: the parts of `x/{a,b/c}` become (x, a) and (x, b, c).
    """
    return [
        InputPath(path.literal, tuple(part for part in _components(text) if part))
        for text in _expanded("/".join(path.parts))
    ]


def pattern_of(part: str) -> re.Pattern[str]:
    """Return the regular expression of one part. A part that is not a valid pattern matches every name."""
    text, depth, in_set, number = "", 0, False, 0
    while number < len(part):
        letter = part[number]
        number += 1
        if letter == "\\" and number < len(part):
            text += re.escape(part[number])
            number += 1
        elif in_set:
            in_set = letter != "]"
            text += "^" if letter == "!" and text.endswith("[") else letter
        elif letter == "[":
            in_set, text = True, text + letter
        elif letter in "{}":
            depth += 1 if letter == "{" else -1
            text += "(?:" if letter == "{" else ")"
        else:
            text += {"*": ".*", "?": "."}.get(letter) or ("|" if letter == "," and depth else re.escape(letter))
    try:
        return re.compile(text, re.DOTALL)
    except re.error:
        return re.compile(".*", re.DOTALL)


def _components(text: str) -> list[str]:
    """Split at slashes, but not at those between braces."""
    found, depth, is_escaped = [""], 0, False
    for letter in text:
        if letter == "/" and depth == 0:
            found.append("")
            continue
        found[-1] += letter
        if not is_escaped:
            depth = max(0, depth + (letter == "{") - (letter == "}"))
        is_escaped = letter == "\\" and not is_escaped
    return found if depth == 0 else text.split("/")


def _expanded(text: str) -> list[str]:
    """Expand the braces that have a slash between them, outermost first."""
    start = 0
    for part in _components(text):
        for group in re.finditer(r"\{([^{}]*/[^{}]*)\}", part):
            before, after = text[: start + group.start()], text[start + group.end() :]
            return [one for choice in group[1].split(",") for one in _expanded(before + choice + after)]
        start += len(part) + 1
    return [text]
