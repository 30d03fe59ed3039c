"""The lease of a reader, which keeps its checkpoint."""

import time
import uuid

from mixedmode.checkpoint.decide_leases import LEASE_MS_MAX
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.types import Lease, Manifest
from mixedmode.errors import InvalidJobError, RetryableError

__all__ = ["LEASE_SECONDS", "check_lease", "leased"]

#: how long a lease lasts by default
LEASE_SECONDS = 300.0


def check_lease(seconds: float) -> None:
    """Raise InvalidJobError if a lease cannot last so long."""
    if not 0 <= 1000 * seconds <= LEASE_MS_MAX:
        msg = f"a lease lasts at most an hour; renew it for longer. lease_seconds={seconds}"
        raise InvalidJobError(msg)


def leased(leases: Leases, manifest: Manifest, seconds: float) -> Lease | None:
    """Return a new lease of a checkpoint; None if the job has dropped the checkpoint."""
    now_ms = time.time_ns() // 1_000_000
    try:
        return leases.take(manifest, now_ms=now_ms, lasts_ms=round(1000 * seconds), token=uuid.uuid4().hex)
    except RetryableError as error:
        msg = (
            "the reader cannot write its lease, which keeps the checkpoint while it is read. Repair the cause, or read "
            "with lease_seconds=0 (--no-lease); then the job may drop the checkpoint meanwhile. "
            f"folder={leases.store.url}, cause={error}"
        )
        raise RetryableError(msg) from error
