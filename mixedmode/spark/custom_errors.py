"""Finds the error of a user's code that ran in a Spark process, in the text that Spark makes of it.

The call of a custom connector class (connectors/custom/instances.py), or of a function for SQL
(tasks/sql_functions.py), raises a MixedmodeError. Its message is one line that ends with values such as class and
method, or function, and PySpark writes this line in its trace.
"""

import re

from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError

_KINDS: dict[str, type[MixedmodeError]] = {
    kind.__name__: kind for kind in (CorruptStateError, InvalidJobError, RetryableError)
}
_WHERE = r"class=\S+:\S+, method=\w+|function=\S+:\S+, "
_OWN = re.compile(rf"^mixedmode\.errors\.({'|'.join(_KINDS)}): (.*\b(?:{_WHERE}).*)$", re.MULTILINE)


def custom_problem(text: str) -> MixedmodeError | None:
    """Return the error as it was raised; None if the text has none."""
    found = _OWN.findall(text)
    if not found:
        return None
    kind, message = found[-1]
    return _KINDS[kind](message)
