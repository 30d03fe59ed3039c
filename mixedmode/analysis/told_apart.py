"""The check that steps without a name cannot be taken for each other at a later start."""

import re

from mixedmode.config.steps import STEP_KINDS
from mixedmode.errors import InvalidJobError
from mixedmode.plan.job_plan import JobPlan

__all__ = ["check_told_apart"]

#: names that streams in Python give to steps (job/streams.py)
_NUMBERED = re.compile(rf"(?:{'|'.join(kind.replace('-', '_') for kind in STEP_KINDS)})_\d+")


def check_told_apart(plan: JobPlan) -> None:
    """Raise InvalidJobError if two numbered steps have one fingerprint and the same sources.

    In Python, steps without a name are numbered in the order in which outputs, unions and joins name them. So
    `a.union(b)` that becomes `b.union(a)` exchanges the names of both, and nothing else would tell them apart.
    """
    seen: dict[tuple[str, tuple[str, ...]], str] = {}
    for name, fingerprint in plan.fingerprints.items():
        if _NUMBERED.fullmatch(name):
            twin = seen.setdefault((repr(fingerprint), plan.entries.get(name, ())), name)
            if twin != name:
                msg = (
                    "two steps without a name differ only in the SQL before them, so the order in which the program "
                    "names them would decide which state belongs to which. Give each a `name`, as in "
                    f"key_by('customer', name='totals'). steps={twin}, {name}"
                )
                raise InvalidJobError(msg)
