"""The settings of a job as values that a whole job, or the job without its steps and outputs, is validated from."""

from typing import Any

from mixedmode.config.fields import key_of
from mixedmode.config.spec import JobSettings, JobSpec

__all__ = ["fields_of", "settings_of"]


def settings_of(spec: JobSpec) -> JobSettings:
    """Return the settings of a job without its steps and sink.

    Settings that are valid in a whole job are valid alone.
    """
    settings = fields_of(spec)
    return JobSettings.model_validate({key: settings[key] for key in map(key_of, JobSettings.model_fields)})


def fields_of(settings: JobSettings) -> dict[str, Any]:
    """Return {key in YAML: value} of all settings."""
    return {key_of(name): getattr(settings, name) for name in type(settings).model_fields}
