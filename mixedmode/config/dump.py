"""Conversion of a JobSpec to the text of a job file.

Invariant (tests/job/test_api.py): loading the text yields an equal spec.
"""

from typing import Any

import yaml

from mixedmode.config.spec import JobSpec

_FOLDED_BREAKS = "\x85\u2028\u2029"  # line breaks to YAML 1.1, which only double quotes keep


def job_spec_to_yaml(spec: JobSpec) -> str:
    """Return YAML of all settings that differ from the defaults, in the order of the sections.

    Long SQL is a YAML block.
    """
    return yaml.dump(spec.as_document(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, where YAML can represent it so."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the name is PyYAML's
        """Write equal sections out twice: a person would not write `&id001`."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if any(line_break in text for line_break in _FOLDED_BREAKS):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
