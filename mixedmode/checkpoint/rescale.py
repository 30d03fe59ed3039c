"""Requests to rescale: the number of subtasks that a running job's steps should have, and which request counts.

A request records the requested parallelism and the parallelism in the job file at that time. As long as
the job file still says the same, the request counts, even after a restart; a changed job file overrides the request.
So no clock has to decide which of the two is newer. Pure: rescale_log.py stores the requests.

    Example: the job file says 4, and somebody requests 8. After a restart with 4 in the file, the job runs with 8.
    After a restart with 6 in the file, the job runs with 6, and the request is outdated.

    parallelism/<number>.json   create-once, by `mixedmode rescale`, `Job.rescale` or the autoscaler; deleted by the
                                driver when a newer request is in use, or when the job file has changed

Each request repeats all earlier requests that still count, so reading the newest one is enough.

Invariants (tests/checkpoint/test_rescale.py):
  I1  a request made during this start counts; after a restart it counts if and only if the job file is unchanged
  I2  a request for one step does not change what was requested for the other steps and for the job
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mixedmode.checkpoint.document import DocumentKind
from mixedmode.checkpoint.manifest import decode_as, encode_as

__all__ = [
    "NOTHING",
    "InForce",
    "Outdated",
    "RescaleDecision",
    "RescaleRequest",
    "Subtasks",
    "amended",
    "decide_parallelism",
    "decode_request",
    "encode_request",
]

_REQUEST = DocumentKind("mixedmode-rescale", 1, "a request to rescale")


@dataclass(frozen=True, slots=True)
class Subtasks:
    """Numbers of subtasks: `steps` by operator id, and `job` for every step that is not in `steps`.

    `job` is None if it is not set. In a job file this means the number of cores; in a request, the job file's number.
    """

    job: int | None = None
    steps: Mapping[str, int] = field(default_factory=dict)

    def over(self, other: "Subtasks") -> "Subtasks":
        """Return both merged; where both have a number, the one of `self` wins."""
        return Subtasks(other.job if self.job is None else self.job, {**other.steps, **self.steps})


NOTHING = Subtasks()


@dataclass(frozen=True, slots=True)
class RescaleRequest:
    """A request: the parallelism asked for (`wanted`), the job file's at that time (`configured`), and the reason.

    `is_automatic`: the autoscaler chose `wanted.job`, and may change it later. It never changes a person's choice.
    """

    number: int
    wanted: Subtasks
    configured: Subtasks
    is_automatic: bool
    reason: str
    created_ms: int

    @property
    def is_pinned(self) -> bool:
        """Return whether a person has chosen the job's number, so that the autoscaler does not change it."""
        return self.wanted.job is not None and not self.is_automatic


@dataclass(frozen=True, slots=True)
class InForce:
    """Run with these numbers of subtasks from now on."""

    subtasks: Subtasks


@dataclass(frozen=True, slots=True)
class Outdated:
    """The job file has changed since the request: run with the job file's numbers.  `reason` is for the user."""

    subtasks: Subtasks
    reason: str


RescaleDecision = InForce | Outdated


def decide_parallelism(
    configured: Subtasks, request: RescaleRequest | None, *, is_made_meanwhile: bool
) -> RescaleDecision:
    """Decide how many subtasks the steps have.  configured: the job file's numbers; request: the newest request.

    is_made_meanwhile: the request was made during this start of the job. Then it always counts: its `configured` may
    differ only because somebody has already edited the job file for the next start.
    """
    if request is None:
        return InForce(configured)
    if is_made_meanwhile or request.configured == configured:
        return InForce(request.wanted.over(configured))
    return Outdated(configured, _OUTDATED.format(then=_shown(request.configured), now=_shown(configured)))


def amended(
    newest: RescaleRequest | None,
    *,
    configured: Subtasks,
    asked: Subtasks,
    created_ms: int,
    is_automatic: bool = False,
    reason: str = "",
) -> RescaleRequest:
    """Return a request for `asked` that also keeps the other wishes of `newest`, if `newest` still counts.

    The request gets its final number when it is stored.
    """
    if newest is None or newest.configured != configured:
        return RescaleRequest(0, asked, configured, is_automatic, reason, created_ms)
    if asked.job is None:  # a request for steps only: the job's number keeps its origin
        is_automatic, reason = newest.is_automatic, newest.reason
    return replace(
        newest,
        wanted=asked.over(newest.wanted),
        is_automatic=is_automatic,
        reason=reason,
        created_ms=created_ms,
    )


def encode_request(request: RescaleRequest) -> bytes:
    """Return the bytes of parallelism/<number>.json."""
    return encode_as(_REQUEST, request)


def decode_request(data: bytes, *, where: str) -> RescaleRequest:
    """Return the request in `data`.  Raises CorruptStateError for bytes that encode_request did not write."""
    return decode_as(_REQUEST, RescaleRequest, data, where=where)


def _shown(subtasks: Subtasks) -> str:
    job = "as many as cores" if subtasks.job is None else str(subtasks.job)
    return ", ".join([job, *(f"{step} {count}" for step, count in subtasks.steps.items())])


_OUTDATED = (
    "the parallelism in the job file has changed since it was asked to rescale, so the job file counts again. Ask once "
    "more if that was not meant. then={then}, now={now}"
)
