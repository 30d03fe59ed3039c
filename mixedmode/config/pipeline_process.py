"""The job of a project of Spark's declarative pipelines. A process of its own runs the functions of the project."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import yaml

from mixedmode import errors
from mixedmode.config.document import Document, Mark
from mixedmode.config.reader import document_of
from mixedmode.config.tree_nodes import value_node
from mixedmode.errors import InternalError, MixedmodeError
from mixedmode.installed import python_command

__all__ = ["ask", "pipeline_document"]

_MODULE = "mixedmode.driver.pipeline"  # of a layer above, which runs elsewhere


def pipeline_document(place: str, overrides: Sequence[str]) -> Document:
    """Return the job of a project, with `key=value` overrides applied.

    place: its spec file, or a file of Python.  Raises InvalidJobError with the mistakes of the project.
    """
    answer = ask(place, overrides)
    if "error" in answer:
        kind: type[MixedmodeError] = getattr(errors, answer["error"])
        raise kind(answer["text"])
    document = document_of(_root(answer["values"]), place, overrides, is_sql=True)
    lines = {path: Mark(*mark) for path, mark in answer["marks"].items()}
    for path, mark in document.marks.items():
        if path in lines and mark.place == place:  # not of an override
            document.marks[path] = replace(lines[path], text=mark.text)
    return document


def ask(place: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the answer of the process: values and their places, or an error.  Raises InternalError without one."""
    # not a path beside the project's own modules, which could have the names of ours
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100
    found = subprocess.run(  # noqa: S603 - this Python
        [python_command(), "-P", "-m", _MODULE, FilePath(place).name, place, *overrides],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=FilePath(place).absolute().parent,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(found.stdout)
    except ValueError as error:
        msg = (
            f"{place}: the process that reads the project has ended without an answer; its output above says why. "
            f"exit_code={found.returncode}"
        )
        raise InternalError(msg) from error
    return answer


def _root(values: Mapping[str, Any]) -> yaml.MappingNode:
    node = value_node(values, 1)
    assert isinstance(node, yaml.MappingNode), values
    return node
