r"""Documents: the small JSON objects of a checkpoint. Each document states its kind and proves that it is undamaged.

    {"kind":"mixedmode-<what>","format_version":<n>,"checksum":"<16 hex>","content":{...}}\n

Each content has exactly one encoding, so a reader encodes the decoded content again and compares the
bytes. A document that differs in a single bit (cut short, flipped, edited by hand, duplicate keys) is damaged.
`checksum` is xxh3_64 over the encoded content. Keys keep their insertion order; text is UTF-8, not escaped; NaN is not
allowed.

Each kind has one format, whose version is in the document. So a program refuses documents of a later format.

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
    """The document has the format of a later mixedmode. It is not damaged, so no start may use or skip it."""


def encode_document(kind: DocumentKind, content: Mapping[str, object]) -> bytes:
    """Return the only encoding of `content`.  Raises ValueError for values that JSON lacks (NaN): the caller's bug."""
    body = _dumps(content)
    head = _dumps({"kind": kind.kind, "format_version": kind.format_version, "checksum": checksum_of([body])})
    return head[:-1] + b',"content":' + body + b"}\n"


def decode_document(kind: DocumentKind, data: bytes, *, where: str) -> bytes:
    """Return the content of a document as JSON, proven undamaged.  `where` names the object in error messages.

    Raises CorruptStateError if the document is damaged or of another kind, NewerFormatError if a later mixedmode wrote
    the document.
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
    """Return the error for a document that cannot be used: the document, the reason, the next step."""
    return CorruptStateError(
        f"{kind.noun} cannot be used: {why}. Nothing was changed. Restore the file, or the whole folder, from a copy. "
        f"file={where}"
    )


def _check_version(kind: DocumentKind, version: object, where: str) -> None:
    if version == kind.format_version:  # true and 1.0 equal 1 too; re-encoding the document detects them
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
    except (ValueError, RecursionError):  # NaN or a lone surrogate, which encode_document never writes
        return None


def _dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
