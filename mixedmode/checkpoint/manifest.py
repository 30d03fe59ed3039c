"""Encode manifests, the job's identity and its starts as bytes, and decode them.

The dataclasses define the format. A document holds the fields of its dataclass under the same names, in
the same order. Once a version is released, a changed field requires a new format version.
tests/checkpoint/test_manifest.py pins the bytes.

The driver writes job.json, generations/* and manifests/*. Each is create-once and never changed.
"""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pydantic import TypeAdapter, ValidationError

from mixedmode.checkpoint.document import DocumentKind, NewerFormatError, damaged, decode_document, encode_document
from mixedmode.checkpoint.types import JobIdentity, Manifest, Start
from mixedmode.errors import CorruptStateError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "decode_as",
    "decode_identity",
    "decode_manifest",
    "decode_start",
    "encode_as",
    "encode_identity",
    "encode_manifest",
    "encode_start",
]

T = TypeVar("T", bound="DataclassInstance")

_MANIFEST = DocumentKind("mixedmode-manifest", 3, "the manifest of a checkpoint")
_JOB = DocumentKind("mixedmode-job", 1, "the identity of the job")
_START = DocumentKind("mixedmode-start", 1, "the record of a start of the job")


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of manifests/<epoch>.json.  Equal manifests have equal bytes if their mappings' orders agree."""
    return encode_as(_MANIFEST, manifest)


@lru_cache(4)
def decode_manifest(data: bytes, *, where: str) -> Manifest:
    """Return the manifest in `data`.  Raises CorruptStateError for bytes that encode_manifest did not write.

    A reader decodes the same bytes several times, to see that nothing has changed; that takes milliseconds.
    """
    return decode_as(_MANIFEST, Manifest, data, where=where)


def encode_identity(identity: JobIdentity) -> bytes:
    """Return the bytes of job.json."""
    return encode_as(_JOB, identity)


def decode_identity(data: bytes, *, where: str) -> JobIdentity:
    """Return the identity in `data`.  Raises CorruptStateError for bytes that encode_identity did not write."""
    return decode_as(_JOB, JobIdentity, data, where=where)


def encode_start(start: Start) -> bytes:
    """Return the bytes of generations/<generation>."""
    return encode_as(_START, start)


def decode_start(data: bytes, *, where: str) -> Start:
    """Return the start in `data`.  Raises CorruptStateError for bytes that encode_start did not write."""
    return decode_as(_START, Start, data, where=where)


def encode_as(kind: DocumentKind, value: "DataclassInstance") -> bytes:
    """Encode a dataclass of JSON-able fields as a document of `kind`."""
    return encode_document(kind, msgspec.to_builtins(value))


def decode_as(kind: DocumentKind, cls: type[T], data: bytes, *, where: str) -> T:
    """Return the `cls` in a document.  Raises CorruptStateError if it is damaged or has other fields than `cls`."""
    try:
        content = decode_document(kind, data, where=where)
    except NewerFormatError:
        if _has_only_its_version_changed(kind, cls, data):
            raise damaged(kind, where, "its format version was changed") from None
        raise
    why = f"its fields are not those of format {kind.format_version}"
    try:
        value = _adapter(cls).validate_json(content, strict=True)
    except ValidationError as error:
        raise damaged(kind, where, why) from error
    assert isinstance(value, cls), value
    if encode_as(kind, value) != data:  # the document has an extra field, or lacks a field of the format
        raise damaged(kind, where, why)
    return value


def _has_only_its_version_changed(kind: DocumentKind, cls: "type[DataclassInstance]", data: bytes) -> bool:
    """Return whether a document with a newer format version has exactly the fields of the current format.

    That is damage (a flipped bit), because a newer format always has other fields.
    """
    ours = re.sub(rb'"format_version":[0-9]+', b'"format_version":%d' % kind.format_version, data, count=1)
    try:
        decode_as(kind, cls, ours, where="")
    except CorruptStateError:
        return False
    return True


@cache
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)
