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
    """Write the files to a folder, and return their paths. Files of the same names are replaced, each as a whole.

    Raises as make_folder.
    """
    make_folder(folder)
    written = [folder / name for name in monitoring_names()]
    for path in written:
        _replace(path, monitoring_file(path.name))
    return written


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        error.filename = str(path)  # the system names no file of a write
        raise
