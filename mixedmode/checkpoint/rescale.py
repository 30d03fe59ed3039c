"""Requests to rescale: how many subtasks a job's steps are to have, asked for while it runs, and what of that counts.

The one idea: a request says what was asked for and what the job file said then. So nobody has to tell the two apart by
time: as long as the job file still says the same, the request counts, also after a restart; a changed job file wins.
Pure: where requests lie is in rescale_log.py.

    parallelism/<number>.json   create-once, by `mixedmode rescale`, `Job.rescale` or the autoscaler; deleted by the
                                driver when a newer one is in use, or when the job file has changed

A request holds all that is asked for, not only what is new in it: so the newest one is enough.

Invariants (tests/checkpoint/test_rescale.py):
  I1  a request that was made while the job runs counts; after a restart, exactly if the job file says what it said then
  I2  asking for one step leaves what was asked for the others, and for the job, as it is
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
    """How many subtasks steps have: `job` is for every step that has no number of its own in `steps`, by operator id.

    None is "not said": in a job file as many as cores, in a request what the job file says.
    """

    job: int | None = None
    steps: Mapping[str, int] = field(default_factory=dict)

    def over(self, other: "Subtasks") -> "Subtasks":
        """Both, where this one wins."""
        return Subtasks(other.job if self.job is None else self.job, {**other.steps, **self.steps})


NOTHING = Subtasks()


@dataclass(frozen=True, slots=True)
class RescaleRequest:
    """What is asked for (`wanted`), what the job file said when it was (`configured`), and why.

    `is_automatic`: the autoscaler chose `wanted.job`. It goes on choosing; what a person has asked for it leaves alone.
    """

    number: int
    wanted: Subtasks
    configured: Subtasks
    is_automatic: bool
    reason: str
    created_ms: int

    @property
    def is_pinned(self) -> bool:
        """Whether a person has chosen the job's number, so that the autoscaler leaves it alone."""
        return self.wanted.job is not None and not self.is_automatic


@dataclass(frozen=True, slots=True)
class InForce:
    """Run with these from now on."""

    subtasks: Subtasks


@dataclass(frozen=True, slots=True)
class Outdated:
    """The job file has changed since: run with what it says.  `reason` is for whoever watches."""

    subtasks: Subtasks
    reason: str


RescaleDecision = InForce | Outdated


def decide_parallelism(
    configured: Subtasks, request: RescaleRequest | None, *, is_made_meanwhile: bool
) -> RescaleDecision:
    """How many subtasks the steps have.  configured: what the job file says; request: the newest one.

    is_made_meanwhile: the request was made while this start of the job runs. Then it counts in any case: the file that
    it was made with may have been changed for the next start.
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
    """The request that asks for `asked`, and still for what `newest` asked for beside it, if that counts.

    Its number is given when it is stored.
    """
    if newest is None or newest.configured != configured:
        return RescaleRequest(0, asked, configured, is_automatic, reason, created_ms)
    if asked.job is None:  # a step: who chose the job's number is as it was
        is_automatic, reason = newest.is_automatic, newest.reason
    return replace(
        newest,
        wanted=asked.over(newest.wanted),
        is_automatic=is_automatic,
        reason=reason,
        created_ms=created_ms,
    )


def encode_request(request: RescaleRequest) -> bytes:
    """The bytes of parallelism/<number>.json."""
    return encode_as(_REQUEST, request)


def decode_request(data: bytes, *, where: str) -> RescaleRequest:
    """Inverse of encode_request.  Raises CorruptStateError for bytes that it did not give."""
    return decode_as(_REQUEST, RescaleRequest, data, where=where)


def _shown(subtasks: Subtasks) -> str:
    job = "as many as cores" if subtasks.job is None else str(subtasks.job)
    return ", ".join([job, *(f"{step} {count}" for step, count in subtasks.steps.items())])


_OUTDATED = (
    "the parallelism in the job file has changed since it was asked to rescale, so the job file counts again. Ask once "
    "more if that was not meant. then={then}, now={now}"
)
