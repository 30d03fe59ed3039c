"""The kinds of error, by what the reader does next.

A message says what happened, why, what to do next, and the values last (`name=value`). Errors carry the same
values as attributes where a program needs them. They survive pickling, because Spark ships them between processes.
A new kind is added only when it is handled differently.
"""

__all__ = [
    "CorruptStateError",
    "FencedError",
    "InternalError",
    "InvalidJobError",
    "MixedmodeError",
    "RetryableError",
]


class MixedmodeError(Exception):
    """The base of every error that mixedmode raises on purpose. `exit_code` is what the command line returns for it."""

    exit_code = 1


class InvalidJobError(MixedmodeError):
    """The job file, a setting or the input is wrong: fix it and start again. Nothing was committed."""

    exit_code = 2


class RetryableError(MixedmodeError):
    """Something outside failed (disk full, store unreachable): repair it and start again; the job resumes."""


class FencedError(MixedmodeError):
    """A newer start of the same job has taken over: leave this one stopped, the newer one continues."""


class CorruptStateError(MixedmodeError):
    """Committed state is damaged or missing: restore from an older checkpoint."""


class InternalError(MixedmodeError):
    """A defect in mixedmode: report it with the message."""


class LeftToSparkError(MixedmodeError):
    """A task that reads files itself has found a form that only Spark reads: the epoch runs again with Spark as reader.

    The executor does that, so no user meets this error, and it is none of the kinds above.
    """
