"""The Python that runs here, the way mixedmode was installed, and the command that adds one of its extras."""

import importlib.metadata
import json
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "mixedmode"


def python_command() -> str:
    """Return the command of this Python.

    Python does not know its own file if it was started under a name that is not on PATH. Then this is `python3`.
    """
    return sys.executable or "python3"


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra, such as `postgres`, for this mixedmode."""
    try:
        direct_url = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # run from its sources, which lie beside the package
        direct_url = json.dumps({"url": Path(__file__).parents[1].as_uri(), "dir_info": {"editable": True}})
    return command_for(extra, direct_url, python_command())


def command_for(extra: str, direct_url: str | None, python: str) -> str:
    """Return the install command for an extra. Pure.

    direct_url: the installer's record (direct_url.json); None if the package came from a package index.

    >>> command_for("bench", None, "python3")
    "python3 -m pip install 'mixedmode[bench]'"
    """
    noted = json.loads(direct_url) if direct_url else {}
    url = str(noted.get("url", ""))
    if not url:
        target = [f"{_NAME}[{extra}]"]
    elif "dir_info" in noted:
        target = ["-e"] if noted["dir_info"].get("editable") else []
        target.append(f"{unquote(urlsplit(url).path)}[{extra}]")
    else:
        vcs = noted.get("vcs_info", {})
        whole = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
        target = [f"{_NAME}[{extra}] @ {whole}"]
    return shlex.join([python, "-m", "pip", "install", *target])
