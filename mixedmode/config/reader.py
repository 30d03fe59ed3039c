"""Conversion of YAML text to a Document, in which every spelling of a key is one path.

Keys may be nested or dotted, in any mixture: `execution.checkpointing.interval: 1s` is three nested keys, and adds to
an `execution:` section elsewhere in the file. In some maps, dots do not separate keys:

* In names chosen by the user (sources, outputs of an aggregate), a dot stays in the name, and the spec refuses it.
* Keys of Spark or a connector (`spark`, `options` of a source, dimension or sink) stay flat and whole, since Spark has
  both `spark.speculation` and `spark.speculation.interval`.
* The `args` of a function, a source or a sink are the user's, at every depth; so are `offsets`, which name topics.

Values have the types of YAML; values of the flat maps keep the text as written. A key without a value counts as not
set; in a step it is refused, since a step without `as-of`, `window` or `key-by` answers another question.

Invariants (tests/config/test_reader.py):
  I1  a document means the same whichever of its keys are dotted
  I2  no value is dropped silently: a key given twice is a problem that names both places
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import yaml

from mixedmode.config.document import Document, Mark, Path, Problem, path_text
from mixedmode.errors import InvalidJobError

#: two spellings of one setting: --set with one spelling also replaces the other
SAME_SETTING: dict[Path, Path] = {
    ("execution", "interval-during-backlog"): ("execution", "checkpointing", "interval-during-backlog"),
    ("execution", "checkpointing", "interval-during-backlog"): ("execution", "interval-during-backlog"),
}

#: a surrogate: from an escape in quotes, or from bytes of an argument that are not UTF-8
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_HALF = "this is not Unicode text: it has one half of a character (U+D800 to U+DFFF). Write the character itself."
_MERGE = "YAML's merge key has no meaning in a job file. Write the keys out, or use an alias as a whole value. found=<<"
_OCTAL = re.compile("[-+]?0[0-9_]")  # YAML 1.1 reads 010 as 8
_TAG = "tag:yaml.org,2002:"
_SECOND_DOCUMENT = "expected a single document in the stream"  # PyYAML's words
#: more than any job needs; deeper nesting would exhaust Python's stack, and aliases of aliases its memory
_DEPTH_MAX, _VALUES_MAX = 60, 100_000
_TYPED_TAGS = {_TAG + name for name in ("null", "bool", "int", "float")}
#: tags that YAML gives by itself; a job file has no date values
_TAGS = _TYPED_TAGS | {_TAG + name for name in ("str", "timestamp", "merge", "value", "map", "seq")}


def read_document(text: str, place: str, overrides: Sequence[str] = ()) -> Document:
    """Return the document in `text`, with `key=value` overrides applied.

    An override wins over the text, and the last of several overrides wins.
    Raises InvalidJobError when `text` is not YAML, or not a section of keys. All other errors are in `problems`, so
    that a caller can report them together with the errors that it finds itself.
    """
    return document_of(_compose(text, place), place, overrides)


def document_of(root: yaml.MappingNode, place: str, overrides: Sequence[str] = (), *, is_sql: bool = False) -> Document:
    """Return the document with this tree, as read_document does.  is_sql: see Document."""
    tree = _Tree(place)
    tree.marks[""] = Mark(place, _line(root) if place else 0)
    tree.add_mapping(root, (), tree.values)
    for override in overrides:
        tree.override(override)
    return Document(tree.values, tree.marks, tree.problems, is_sql)


class _Loader(yaml.SafeLoader):
    """A YAML loader with limits: nesting of at most _DEPTH_MAX, at most _VALUES_MAX values with aliases written out."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text)
        self._place = place
        self._depth = 0
        self._values = 0  # so far, aliases written out
        self._values_of: dict[int, int] = {}  # {id of a node that is complete: values in it}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node. Raises InvalidJobError beyond a limit."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if self._depth > _DEPTH_MAX:
            self._refuse(line, f"lists and sections are nested more than {_DEPTH_MAX} deep. Make them flatter.")
        before = self._values
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and _HALF_CHARACTER.search(node.value):
            self._refuse(line, _HALF)
        self._depth -= 1
        self._values += self._values_of.get(id(node), 1) if isinstance(event, yaml.AliasEvent) else 1
        if self._values > _VALUES_MAX:
            self._refuse(line, f"with its aliases written out, this has more than {_VALUES_MAX:,} values. Shorten it.")
        if not isinstance(event, yaml.AliasEvent):
            self._values_of[id(node)] = self._values - before
        return node

    def _refuse(self, line: int, text: str) -> None:
        raise InvalidJobError(f"{Mark(self._place, line if self._place else 0)}: {text}".removeprefix(": "))


def _composed(text: str, place: str) -> yaml.Node | None:
    loader = _Loader(text, place)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


class _Keys(Enum):
    """The rules by which the keys of a map are parsed."""

    EXPANDED = "a dot separates two keys"
    NAMES = "names made up by the user; the values are sections, so a dotted key may pass through"
    OWN = "names made up by the user; the values are single, or as much the user's own"
    FLAT = "whole keys of Spark, dots and all"


#: {key of a map: how the keys in it are parsed}
_KEYS: dict[str | int, _Keys] = {
    **dict.fromkeys(("sources", "dimensions", "outputs", "functions", "broadcast"), _Keys.NAMES),
    **dict.fromkeys(("args", "offsets", "aggregate", "computed-columns"), _Keys.OWN),
    **dict.fromkeys(("spark", "options"), _Keys.FLAT),
}


def _keys_at(path: Path) -> _Keys:
    """Return how the keys of the map at `path` are parsed. Below a map of the user's own keys, all keys are his."""
    kind = _Keys.EXPANDED
    for part in path:
        # a name is followed by the settings of a section, whatever the name is: a source may be called `args`
        kind = _Keys.EXPANDED if kind is _Keys.NAMES else _KEYS.get(part, _Keys.EXPANDED)
        if kind in (_Keys.OWN, _Keys.FLAT):
            break
    return kind


def _is_of_any_type(path: Path) -> bool:
    return "args" in path and _keys_at(path[:-1]) is _Keys.OWN


def _needs_value(path: Path) -> bool:
    is_key = isinstance(path[-1], str) and path[0] == "steps" and len(path) > 1
    return is_key and _keys_at(path[:-1]) in (_Keys.EXPANDED, _Keys.NAMES)


@dataclass(slots=True)
class _Tree:
    """A document while it is parsed."""

    place: str
    values: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: ids of the nodes that are being read, to detect an alias that contains itself
    open_nodes: set[int] = field(default_factory=set)
    constructor: yaml.constructor.SafeConstructor = field(default_factory=yaml.constructor.SafeConstructor)

    def add_mapping(self, node: yaml.MappingNode, at: Path, into: dict[str, Any], prefix: str = "") -> None:
        """Add the pairs of `node` to the section `into` at path `at`. `prefix` is the start of a key of a flat map."""
        if id(node) in self.open_nodes:
            self._refuse(self._mark(node), f"{path_text(at)} contains itself. Remove the alias.")
            return
        self.open_nodes.add(id(node))
        self._check_tag(node)
        seen: dict[str, Mark] = {}
        for key_node, value in node.value:
            mark = self._mark(key_node, value)
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(mark, "a key must be a single word. Put it in quotes if it holds brackets or braces.")
            elif key_node.tag == _TAG + "merge":
                self._refuse(mark, _MERGE)
            elif key_node.value in seen:
                self._refuse_twice((*at, prefix + key_node.value), mark, seen[key_node.value])
            else:
                seen[key_node.value] = mark
                self._add(prefix + key_node.value, value, mark, at, into)
        self.open_nodes.remove(id(node))

    def override(self, override: str) -> None:
        """Apply one `key=value` over what the file says."""
        key, equals, text = override.partition("=")
        key = key.strip()
        mark = Mark(f"--set {key}", text=text)
        if not equals or not key:
            self._refuse(Mark(f"--set {override}"), "this is not key=value. Write, for example, --set parallelism=4.")
            return
        if _HALF_CHARACTER.search(override):
            self._refuse(Mark(ascii(f"--set {override}")), _HALF)
            return
        parts = self._parts(key, mark, ())
        if not parts:
            return
        if parts in SAME_SETTING:
            *outer, last = SAME_SETTING[parts]
            self._discard(outer, last)
        into = self.values
        for end in range(1, len(parts)):
            held = into.get(parts[end - 1])
            if not isinstance(held, dict):
                held = into[parts[end - 1]] = {}
                self.marks[path_text(parts[:end])] = mark
            into = held
        value = self._value(_scalar_node(text.strip()), parts)
        if value is None and parts[-1] in into:
            del into[parts[-1]]  # no longer set; this also removes a key that the section's new format does not have
        else:
            into[parts[-1]] = value
        self.marks[path_text(parts)] = mark

    def _discard(self, outer: Sequence[str | int], last: str | int) -> None:
        into: Any = self.values
        for part in outer:
            into = into.get(part) if isinstance(into, dict) else None
        if isinstance(into, dict):
            into.pop(last, None)

    def _add(self, key: str, node: yaml.Node, mark: Mark, at: Path, into: dict[str, Any]) -> None:
        if isinstance(node, yaml.MappingNode) and _keys_at(at) is _Keys.FLAT:
            self.add_mapping(node, at, into, prefix=f"{key}.")
            return
        parts = self._parts(key, mark, at)
        for part in parts[:-1]:
            section = self._section(at, part, mark, into)
            if section is None:
                return
            at, into = (*at, part), section
        if not parts:
            return
        path = (*at, parts[-1])
        if isinstance(node, yaml.MappingNode):
            section = self._section(at, parts[-1], mark, into)
            if section is not None:
                self.add_mapping(node, path, section)
        elif into.get(parts[-1]) is None:
            into[parts[-1]] = self._value(node, path)
            self.marks[path_text(path)] = mark
        elif node.tag != _TAG + "null":
            self._refuse_twice(path, mark, self.marks[path_text(path)])

    def _section(self, at: Path, key: str, mark: Mark, into: dict[str, Any]) -> dict[str, Any] | None:
        """Return the section `key` of `into`, created if missing; None if the key has another value."""
        held = into.get(key)
        if held is None:
            held = into[key] = {}
            self.marks[path_text((*at, key))] = mark
        if isinstance(held, dict):
            return held
        self._refuse_twice((*at, key), mark, self.marks[path_text((*at, key))])
        return None

    def _parts(self, key: str, mark: Mark, at: Path) -> tuple[str, ...]:
        """Return the keys that a dotted key stands for, below `at`.

        The result for an invalid key is (), and a problem is added.
        """
        parts: tuple[str, ...] = ()
        rest: str | None = key
        while rest is not None:
            kind = _keys_at((*at, *parts))
            if kind is _Keys.EXPANDED or (kind is _Keys.NAMES and parts):
                head, dot, tail = rest.partition(".")
                parts, rest = (*parts, head), tail if dot else None
                continue
            is_short = (*at, *parts) == ("spark",) and not rest.startswith("spark.")
            parts, rest = (*parts, f"spark.{rest}" if is_short and rest else rest), None
        if "" in parts:
            self._refuse(mark, f"a key, or a part of one between two dots, is empty. Name it or remove it. found={key}")
            return ()
        return parts

    def _value(self, node: yaml.Node, path: Path) -> Any:
        if isinstance(node, yaml.MappingNode):
            section: dict[str, Any] = {}
            self.add_mapping(node, path, section)
            return section
        if isinstance(node, yaml.SequenceNode):
            return list(self._items(node, path))
        is_flat = _keys_at(path[:-1]) is _Keys.FLAT
        if node.tag in _TYPED_TAGS:
            try:
                value = self.constructor.construct_object(node)
            except ValueError:  # YAML 1.1's pattern accepts texts that are not numbers, such as 0x_
                return node.value
            if value is None and _needs_value(path):
                what = f"{path_text(path)} has no value. Give it one ({{}} for a section with its defaults)"
                self._refuse(self._mark(node), f"{what}, or remove the key.")
            if is_flat and value is not None:
                return str(value).lower() if isinstance(value, bool) else node.value
            is_octal = isinstance(value, int) and _OCTAL.match(node.value)
            if is_octal or (isinstance(value, int | float) and ":" in node.value):  # 1:30 is 90
                text = "YAML does not read this as a decimal number. Write it without leading zeros and colons"
                self._refuse(self._mark(node), f"{text}, or put a text in quotes. found={node.value}, read_as={value}")
            if isinstance(value, bool) and _is_of_any_type(path) and node.value.lower() not in {"true", "false"}:
                text = "YAML reads this as true or false. Write true or false, or put a text in quotes. found="
                self._refuse(self._mark(node), text + node.value)
            return value
        self._check_tag(node)
        return node.value

    def _check_tag(self, node: yaml.Node) -> None:
        if node.tag not in _TAGS:
            tag = node.tag.removeprefix(_TAG)
            self._refuse(self._mark(node), f"YAML tags have no meaning in a job file. Remove it. tag={tag}")

    def _items(self, node: yaml.SequenceNode, path: Path) -> Iterator[Any]:
        if id(node) in self.open_nodes:
            self._refuse(self._mark(node), f"{path_text(path)} contains itself. Remove the alias.")
            return
        self.open_nodes.add(id(node))
        self._check_tag(node)
        for index, item in enumerate(node.value):
            self.marks[path_text((*path, index))] = self._mark(item, item)
            yield self._value(item, (*path, index))
        self.open_nodes.remove(id(node))

    def _mark(self, node: yaml.Node, value: yaml.Node | None = None) -> Mark:
        text = value.value if isinstance(value, yaml.ScalarNode) else None
        return Mark(self.place, _line(node) if self.place else 0, text)

    def _refuse(self, mark: Mark, text: str) -> None:
        self.problems.append(Problem(mark, text))

    def _refuse_twice(self, path: Path, mark: Mark, first: Mark) -> None:
        place = f", first at {first}" if first.place else ""
        self._refuse(mark, f"{path_text(path)} is given twice{place}. Keep one of the two.")


def _compose(text: str, place: str) -> yaml.MappingNode:
    try:
        root = _composed(text, place)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        begin = error.context_mark.line + 1 if error.context_mark else line
        context = f"{error.context} that begins in line {begin}" if error.context and begin != line else error.context
        detail = ", ".join(part for part in (error.problem, context) if part)
        if error.context == _SECOND_DOCUMENT:
            why = "a second document begins here, and a job file is one. Make it a file of its own."
            msg = f"{Mark(place, line)}: {why}"
            raise InvalidJobError(msg) from error
        if mark and text[mark.index : mark.index + 1] == "\t":
            msg = f"{Mark(place, line)}: a tab is where YAML allows only spaces. Replace it with spaces."
            raise InvalidJobError(msg) from error
        raise InvalidJobError(_not_yaml(Mark(place, line), detail)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidJobError(_not_yaml(Mark(place, line), f"{error.reason}, U+{error.character:04X}")) from error
    if root is None or root.tag == _TAG + "null":
        msg = f"{place}: the job file is empty. A job needs at least name, sources, steps and sink."
        raise InvalidJobError(msg)
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "text"
        msg = f"{place}:{_line(root)}: the job file must be a section of keys (name, sources, steps, sink), not {kind}."
        raise InvalidJobError(msg)
    return root


def _not_yaml(mark: Mark, detail: str) -> str:
    advice = (
        "Check the indentation, quotes and brackets here, and the space after the colon of each key. A text needs "
        "quotes if it has `: ` in it, if it is `*`, and, between { and }, if it has commas, brackets or braces."
    )
    return f"{mark}: this is not valid YAML. {advice} YAML says: {detail}"


def _line(node: yaml.Node) -> int:
    return 0 if node.start_mark is None else int(node.start_mark.line) + 1


def _scalar_node(text: str) -> yaml.Node:
    """Return the YAML node of one value on the command line. Text that is not a scalar in YAML is used unchanged."""
    if text[:1] in {"'", '"'}:
        try:
            node = _composed(text, "")
        except (yaml.YAMLError, InvalidJobError):
            node = None
        if isinstance(node, yaml.ScalarNode):
            return node
    resolver: Any = yaml.resolver.Resolver()
    return yaml.ScalarNode(resolver.resolve(yaml.ScalarNode, text, (True, False)), text)
