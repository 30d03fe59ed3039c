"""The result file: a Document as JSON, and back."""

import os
from pathlib import Path

import msgspec

from mixedmode.errors import InvalidJobError
from mixedmode_bench.results import Document

FORMAT = 1


class _Head(msgspec.Struct):
    format: int


def write_document(document: Document, file: Path) -> None:
    """Write it, so that a file is never half there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f".{file.name}.part")
    half.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    os.replace(half, file)  # noqa: PTH105  the plain call says what it does


def read_document(file: Path) -> Document:
    """Read the document that `write_document` wrote. Raise InvalidJobError for another file or another format."""
    try:
        text = file.read_bytes()
        found = msgspec.json.decode(text, type=_Head).format
        if found == FORMAT:
            return msgspec.json.decode(text, type=Document)
    except OSError as error:
        msg = f"the result file cannot be read: {error.strerror}. Run the benchmark, or name another one. file={file}"
        raise InvalidJobError(msg) from error
    except msgspec.MsgspecError as error:
        msg = f"this is not a result of `mixedmode bench`, or it is damaged: {error}. Run it again. file={file}"
        raise InvalidJobError(msg) from error
    msg = (
        "the result file is of another format, of another version of mixedmode. Show it with that version, or run the "
        f"benchmark again. format={found}, expected={FORMAT}, file={file}"
    )
    raise InvalidJobError(msg)
