"""Finds the error that a custom connector class raised in a Spark process, in the text that Spark makes of it.

The call of the class raises a MixedmodeError (custom_classes.py). Its message is one line that ends with values such as
class and method, and PySpark writes this line at the end of the trace.
"""

import re

from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError

_KINDS: dict[str, type[MixedmodeError]] = {
    kind.__name__: kind for kind in (CorruptStateError, InvalidJobError, RetryableError)
}
_OWN = re.compile(rf"^mixedmode\.errors\.({'|'.join(_KINDS)}): (.*class=\S+:\S+, method=\w+.*)$", re.MULTILINE)


def custom_problem(text: str) -> MixedmodeError | None:
    """Return the error as the class raised it; None if the text has none."""
    found = _OWN.findall(text)
    if not found:
        return None
    kind, message = found[-1]
    return _KINDS[kind](message)
