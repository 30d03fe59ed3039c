"""The observers of a run as one observer, which protects the run from their errors."""

import logging
import threading
from collections.abc import Sequence

from mixedmode.driver.events import Event, Observer

__all__ = ["Observers"]

_logger = logging.getLogger(__name__)


class Observers:
    """Passes each event to all observers, one event at a time, whichever thread it comes from.

    An observer that raises gets later events all the same. Its first error is logged with the traceback, and neither
    the epoch nor the other observers notice. Only what is not an Exception, such as KeyboardInterrupt, ends the run.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._failed: set[int] = set()
        self._lock = threading.RLock()

    def __call__(self, event: Event) -> None:
        """Pass one event on."""
        with self._lock:
            for number, observer in enumerate(self._observers):
                try:
                    observer(event)
                except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                    self._tell(number, event, error)

    def _tell(self, number: int, event: Event, error: Exception) -> None:
        if number not in self._failed:
            self._failed.add(number)
            observer = self._observers[number]
            _logger.error(
                "an observer of the run raised an error; the job goes on, and later errors of this observer are not "
                "logged. observer=%s, event=%s",
                getattr(observer, "__qualname__", type(observer).__qualname__),
                type(event).__name__,
                exc_info=error,
            )
