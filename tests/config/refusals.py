"""The messages of a section for values that it refuses, for the tests of the sections."""

from typing import Any

import pytest
from pydantic import ValidationError

from mixedmode.config.fields import Section
from mixedmode.config.messages import findings

#: the smallest whole job, as a mapping
SMALLEST_JOB: dict[str, Any] = {
    "name": "delays",
    "execution": {"checkpointing": {"dir": "/run"}},
    "sources": {"flights": {"format": "parquet", "path": "/flights"}},
    "steps": [{"sql": "SELECT * FROM flights"}],
    "sink": {"format": "console"},
}


def messages(model: type[Section], values: dict[str, Any]) -> list[str]:
    """The texts about `values`, which `model` must refuse."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return [text for _, text in findings(caught.value, model)]
