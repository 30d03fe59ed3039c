"""Retention: which old checkpoints a running job drops after a commit."""

from mixedmode.checkpoint.decide_leases import droppable
from mixedmode.checkpoint.gc import drop_checkpoint
from mixedmode.checkpoint.leases import Leases
from mixedmode.checkpoint.log import CheckpointLog
from mixedmode.checkpoint.types import Manifest

__all__ = ["drop_old_checkpoints"]


def drop_old_checkpoints(log: CheckpointLog, retained: list[Manifest], *, num_retained: int, now_ms: int) -> None:
    """Drop the checkpoints beyond `num_retained` that no reader has leased, oldest first.

    `retained` are all checkpoints, oldest first; each one is removed from it after its drop. So if the store fails, the
    next call drops the rest.
    """
    if len(retained) <= num_retained:
        return
    leased = {lease.epoch for lease in Leases(log.store).valid(now_ms)}
    epochs = [manifest.epoch for manifest in retained]
    for epoch in droppable(epochs, num_retained=num_retained, leased=leased):
        assert retained[0].epoch == epoch, (retained[0].epoch, epoch)
        drop_checkpoint(log, retained[0], retained[1:])
        del retained[0]
