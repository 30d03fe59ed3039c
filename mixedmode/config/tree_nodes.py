"""Nodes of YAML that are made of values, each with the line from which the value comes.

A tree of them is validated as the tree of a job file is, and messages name these lines.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

__all__ = ["Entry", "mapping_node", "scalar_node", "sequence_node", "text_node", "texts_node", "value_node"]

_TAG = "tag:yaml.org,2002:"
_NUMBER_OR_FLAG = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false", re.ASCII)

Entry = tuple[str, yaml.Node, int]  #: a dotted key, its value, and its line


def mapping_node(entries: Iterable[Entry], line: int) -> yaml.MappingNode:
    """Return a section."""
    pairs = [(text_node(key, at), node) for key, node, at in entries]
    return yaml.MappingNode(f"{_TAG}map", pairs, *_marks(line))


def sequence_node(nodes: Sequence[yaml.Node], line: int) -> yaml.SequenceNode:
    """Return a list."""
    return yaml.SequenceNode(f"{_TAG}seq", list(nodes), *_marks(line))


def text_node(text: str, line: int) -> yaml.ScalarNode:
    """Return a text."""
    return yaml.ScalarNode(f"{_TAG}str", text, *_marks(line))


def texts_node(texts: Sequence[str], line: int) -> yaml.SequenceNode:
    """Return a list of texts."""
    return sequence_node([text_node(text, line) for text in texts], line)


def scalar_node(text: str, line: int) -> yaml.ScalarNode:
    """Return a value: a decimal number, true or false as such, and anything else as text."""
    if _NUMBER_OR_FLAG.fullmatch(text) is None:
        return text_node(text, line)
    resolver: Any = yaml.resolver.Resolver()
    return yaml.ScalarNode(resolver.resolve(yaml.ScalarNode, text, (True, False)), text, *_marks(line))


def value_node(value: Any, line: int) -> yaml.Node:
    """Return a value of Python: a mapping, a list, a text, a number, true or false, or None."""
    match value:
        case Mapping():
            return mapping_node([(str(key), value_node(one, line), line) for key, one in value.items()], line)
        case list() | tuple():
            return sequence_node([value_node(one, line) for one in value], line)
        case str():
            return text_node(value, line)
        case _:
            node = yaml.representer.SafeRepresenter().represent_data(value)
            return yaml.ScalarNode(node.tag, node.value, *_marks(line))


def _marks(line: int) -> tuple[Any, Any]:
    mark = yaml.Mark("", 0, line - 1, 0, None, 0)
    return mark, mark
