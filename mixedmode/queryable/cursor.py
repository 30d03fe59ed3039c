"""The place at which the next page of a scan begins, as text: the checkpoint of the page before, and a stored key.

    12.3.1767225600000-AAE=    epoch, start of the job, time of the commit in ms, and the stored key in base64

The number of an epoch is not enough. A job that has gone back, or was reset, commits another epoch of this number.
"""

import base64
import binascii
import re

from mixedmode.checkpoint.types import Epoch, Generation, Manifest, ManifestIdentity
from mixedmode.errors import InvalidJobError

__all__ = ["cursor_of", "epoch_of_page", "position_of"]

_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})-([A-Za-z0-9_=-]*)")


def cursor_of(manifest: Manifest, position: bytes) -> str:
    """Return the place at which the next page begins.  position: a stored key."""
    return f"{'.'.join(map(str, manifest.identity))}-{base64.urlsafe_b64encode(position).decode()}"


def epoch_of_page(after: str) -> int:
    """Return the epoch of the page before.  after: as `cursor_of`."""
    return _parsed(after)[0][0]


def position_of(after: str, manifest: Manifest) -> bytes:
    """Return the stored key at which a page begins.  Raise InvalidJobError if the page before is of other state."""
    identity, position = _parsed(after)
    if identity[0] != manifest.epoch:
        msg = (
            "the page before is of another epoch. Read all pages at one epoch. "
            f"epoch={manifest.epoch}, after={identity[0]}"
        )
        raise InvalidJobError(msg)
    if identity != manifest.identity:
        msg = (
            "the job has gone back, or begun anew, since the page before, so its epoch has another state now. Begin at "
            f"the first page. epoch={manifest.epoch}"
        )
        raise InvalidJobError(msg)
    return position


def _parsed(text: str) -> tuple[ManifestIdentity, bytes]:
    found = _CURSOR.fullmatch(text)
    try:
        if found is not None:
            identity = Epoch(int(found[1])), Generation(int(found[2])), int(found[3])
            return identity, base64.b64decode(found[4], altchars=b"-_", validate=True)
    except binascii.Error:
        pass
    msg = f"`after` is not the `next` of a page. Begin at the first page. after={text[:200]!r}"
    raise InvalidJobError(msg)
