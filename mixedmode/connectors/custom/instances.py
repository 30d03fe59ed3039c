"""Calls of a user's connector classes, with errors that name class, method and line.

Whatever such a class raises is converted at the call into one of our kinds of error. The message is one line, and it
shows the names of secrets instead of their values. So no stack trace of user code reaches a screen, from any process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mixedmode.connectors.custom.classes import CustomSink, CustomSource
from mixedmode.errors import MixedmodeError, RetryableError
from mixedmode.operators.classes import ClassKind, NamedClass, file_of
from mixedmode.secrets import hidden

__all__ = ["CUSTOM_SINK", "CUSTOM_SOURCE", "call_user_method", "calling"]

_NOTHING = "Nothing of this epoch was committed."
#: {method: what has become of the epoch when it raises}
_EFFECTS = {"publish": "The rows of this epoch are not lost: the sink gets all of them again."}

T = TypeVar("T", CustomSource, CustomSink)
R = TypeVar("R")

CUSTOM_SOURCE = ClassKind(
    noun="custom source", key="class", bases=(CustomSource,), derives_from="mixedmode.connectors.CustomSource"
)
CUSTOM_SINK = ClassKind(
    noun="custom sink", key="class", bases=(CustomSink,), derives_from="mixedmode.connectors.CustomSink"
)


def call_user_method(named: NamedClass[T], own: T, method: Callable[..., R], *arguments: Any) -> R:
    """Return the result of a method of `own`, an instance of the class. Raises the errors that `calling` raises."""
    with calling(named, own, method.__name__):
        return method(*arguments)


@contextmanager
def calling(named: NamedClass[T], own: T, method: str) -> Iterator[None]:
    """Convert errors of the block, which calls a method of `own`, an instance of the class.

    Errors of our own kinds keep their kind, since the method chose it. All other exceptions become a RetryableError,
    and so does `sys.exit`, with which the driver would end as if the job were done.
    """
    try:
        yield
    except MixedmodeError as error:
        msg = f"{hidden(_in_one_line(str(error)))} class={named.label}, method={method}"
        raise type(error)(msg) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the method raises; an exit would end the job
        from mixedmode.operators.process.failures import line_of, shown_error  # noqa: PLC0415 - much to import, rarely needed

        msg = _in_one_line(
            f"the {named.kind.noun} raised {shown_error(error)} in `{method}`. {_EFFECTS.get(method, _NOTHING)} "
            "Correct the class, or what it reaches, and start the job again: it resumes. "
            f"class={named.label}, method={method}, at={line_of(error, file_of(own))}"
        )
        has_secret = hidden(str(error)) != str(error)
        raise RetryableError(hidden(msg)) from (None if has_secret else error)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
