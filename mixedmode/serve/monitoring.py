"""Files for other programs that read the metrics: a Grafana dashboard, and alert rules for Prometheus."""

from importlib.resources import files
from pathlib import Path

from mixedmode.folders import make_folder

__all__ = ["monitoring_file", "monitoring_names", "write_monitoring_files"]

_FOLDER = "dashboards"


def monitoring_names() -> list[str]:
    """Return the names of the files."""
    return sorted(file.name for file in (files("mixedmode.serve") / _FOLDER).iterdir() if file.is_file())


def monitoring_file(name: str) -> str:
    """Return the text of a file.  name: one of `monitoring_names`."""
    return (files("mixedmode.serve") / _FOLDER / name).read_text(encoding="utf-8")


def write_monitoring_files(folder: Path) -> list[Path]:
    """Write the files to a folder, and return their paths. Files of the same names are replaced.

    Raises as make_folder.
    """
    make_folder(folder)
    written = [folder / name for name in monitoring_names()]
    for path in written:
        path.write_text(monitoring_file(path.name), encoding="utf-8")
    return written
