"""What a user's connector class raised in a process of Spark's, found in the text that Spark makes of it.

The one idea: the call of the class raised one of our kinds, with a message in one line that ends with its values
(custom_classes.py); PySpark writes that line at the end of the trace.
"""

import re

from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError

_KINDS: dict[str, type[MixedmodeError]] = {
    kind.__name__: kind for kind in (CorruptStateError, InvalidJobError, RetryableError)
}
_OWN = re.compile(rf"^mixedmode\.errors\.({'|'.join(_KINDS)}): (.*class=\S+:\S+, method=\w+.*)$", re.MULTILINE)


def custom_problem(text: str) -> MixedmodeError | None:
    """The error as it was raised; None if there is none in the text."""
    found = _OWN.findall(text)
    if not found:
        return None
    kind, message = found[-1]
    return _KINDS[kind](message)
