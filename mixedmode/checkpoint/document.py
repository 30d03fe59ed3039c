r"""Documents: the small JSON objects of a checkpoint, each of which says what it is and proves that it is whole.

    {"kind":"mixedmode-<what>","format_version":<n>,"checksum":"<16 hex>","content":{...}}\n

The one idea: there is exactly one way to write a document, so a reader writes it again and compares. What differs by
a single bit (cut short, flipped, edited by hand, duplicate keys) is damaged. `checksum` is xxh3_64 over the content
as it is written. Keys keep the order in which they were given; text is UTF-8, not escaped; there is no NaN.

Each kind has one format, whose version is in the document, so that a program refuses the documents of a later one.

Invariants (tests/checkpoint/test_manifest.py):
  I1  decode(encode(content)) == content
  I2  changing any one bit, or cutting anything off, raises CorruptStateError
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from mixedmode.checkpoint.checksum import checksum_of
from mixedmode.errors import CorruptStateError

__all__ = ["DocumentKind", "NewerFormatError", "damaged", "decode_document", "encode_document"]


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of document, and the version of its format. `noun` is for messages."""

    kind: str
    format_version: int
    noun: str


class NewerFormatError(CorruptStateError):
    """The document is of a later mixedmode's format. It is not damaged: no start may use it or pass it over."""


def encode_document(kind: DocumentKind, content: Mapping[str, object]) -> bytes:
    """The one way to write `content`.  Raises ValueError for what JSON cannot hold (NaN): a defect of the caller."""
    body = _dumps(content)
    head = _dumps({"kind": kind.kind, "format_version": kind.format_version, "checksum": checksum_of([body])})
    return head[:-1] + b',"content":' + body + b"}\n"


def decode_document(kind: DocumentKind, data: bytes, *, where: str) -> bytes:
    """The content of a document as JSON, proven whole.  `where` names the object in messages.

    Raises CorruptStateError when it is damaged or is something else, NewerFormatError if a later mixedmode wrote it.
    """
    try:
        envelope = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(kind, where, f"it is cut short or overwritten, bytes={len(data)}") from error
    if not isinstance(envelope, dict) or envelope.get("kind") != kind.kind:
        found = envelope.get("kind") if isinstance(envelope, dict) else None
        raise damaged(kind, where, f"something else was put in its place, kind={found!r}, expected={kind.kind!r}")
    _check_version(kind, envelope.get("format_version"), where)
    content = envelope.get("content")
    if not isinstance(content, dict) or _encoded(kind, content) != data:
        raise damaged(kind, where, f"its checksum does not match its content, checksum={envelope.get('checksum')!r}")
    return _dumps(content)


def damaged(kind: DocumentKind, where: str, why: str) -> CorruptStateError:
    """The error for a document that cannot be used: what, why, what to do next."""
    return CorruptStateError(
        f"{kind.noun} cannot be used: {why}. Nothing was changed. Restore the file from a copy, or go back to an older "
        f"checkpoint. file={where}"
    )


def _check_version(kind: DocumentKind, version: object, where: str) -> None:
    if version == kind.format_version:  # true and 1.0 equal 1 too; they fail when the document is written again
        return
    if isinstance(version, int) and version > kind.format_version:
        msg = (
            f"{kind.noun} was written by a newer mixedmode than this one. Nothing was changed. Start the job with the "
            f"version that wrote it, or a later one. file={where}, format_version={version}, "
            f"readable={kind.format_version}"
        )
        raise NewerFormatError(msg)
    raise damaged(kind, where, f"its format is not one that mixedmode ever wrote, format_version={version!r}")


def _encoded(kind: DocumentKind, content: Mapping[str, object]) -> bytes | None:
    try:
        return encode_document(kind, content)
    except (ValueError, RecursionError):  # NaN, a lone surrogate: it cannot come from encode_document
        return None


def _dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
