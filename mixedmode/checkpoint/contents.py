"""Digests of outputs: one digest covers all files that were ever published to an output, epoch by epoch. Pure.

If an output has the digest that a manifest records, exactly the epochs that led to that manifest wrote the output. An
epoch number cannot prove that: after a job goes back, other epochs have the same numbers.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from mixedmode.checkpoint.types import Epoch, Manifest, StagedFile

__all__ = ["NOTHING", "content_after", "contents_after"]

#: the digest of an output that nothing was published to
NOTHING = ""


def content_after(before: str, epoch: Epoch, files: Sequence[StagedFile]) -> str:
    """Return the digest of an output after the files of an epoch are published; an epoch without files changes nothing.

    >>> content_after(NOTHING, Epoch(3), [])
    ''
    """
    if not files:
        return before
    parts = sorted(f"{file.final_path} {file.bytes} {file.checksum}" for file in files)
    return sha256("\n".join([before, str(epoch), *parts]).encode()).hexdigest()[:32]


def contents_after(
    latest: Manifest | None, epoch: Epoch, outputs: Sequence[StagedFile], names: Sequence[str]
) -> dict[str, str]:
    """Return {name of an output: its digest after an epoch}; an output that `latest` does not list starts at NOTHING.

    An output that `latest` lists without a digest (an older format wrote `latest`) is left out.
    """
    known = {} if latest is None else {name: latest.output_contents.get(name) for name in latest.output_names}
    found: Mapping[str, str | None] = {name: known.get(name, NOTHING) for name in names}
    return {
        name: content_after(before, epoch, [file for file in outputs if file.sink == name])
        for name, before in found.items()
        if before is not None
    }
