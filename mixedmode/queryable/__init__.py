"""Queryable state: the state of a job's steps at one epoch, as Arrow tables, without Spark and without the job."""

from mixedmode.queryable.snapshot import LEASE_SECONDS, StateAnswer, StateSnapshot, open_state, read_state

__all__ = ["LEASE_SECONDS", "StateAnswer", "StateSnapshot", "open_state", "read_state"]
