"""Store requests to rescale: users and the autoscaler write them, the driver reads them before each epoch.

A request is create-once under the next free number. So two requests at the same time are both stored, one after the
other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mixedmode.checkpoint import paths
from mixedmode.checkpoint.rescale import RescaleRequest, decode_request, encode_request
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.errors import CorruptStateError

__all__ = ["RescaleLog"]


@dataclass(frozen=True, slots=True)
class RescaleLog:
    """The requests in a checkpoint folder. Each read goes to the store."""

    store: ObjectStore

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all stored requests in ascending order; this costs one small listing."""
        listed = (paths.parse_rescale_path(path) for path, _ in self.store.list(paths.PARALLELISM))
        return tuple(sorted(number for number in listed if number is not None))

    def get(self, number: int) -> RescaleRequest | None:
        """Return one request; None if it does not exist.  Raises CorruptStateError if it cannot be read."""
        path = paths.rescale_path(number)
        data = self.store.get(path)
        if data is None:
            return None
        where = f"{self.store.url}/{path}"
        cause: CorruptStateError | None = None
        try:
            request = decode_request(data, where=where)
        except CorruptStateError as error:
            cause = error
        else:
            if request.number == number:
                return request
        msg = (  # a file with another number is a copy that somebody has made
            "a request to rescale cannot be read, so the job keeps the parallelism that it has. No state is affected. "
            f"Ask once more with `mixedmode rescale`, which replaces it. file={where}"
        )
        raise CorruptStateError(msg) from cause

    def newest(self) -> RescaleRequest | None:
        """Return the newest readable request, None if there is none. decide_parallelism says whether it counts."""
        return self._newest_of(self.numbers())

    def add(self, make: Callable[[RescaleRequest | None], RescaleRequest | None]) -> RescaleRequest | None:
        """Store the request that `make` returns for the newest one, under the next number; retry if that was taken.

        Return the stored request; None if `make` returns None, because there is nothing to request.
        """
        while True:
            numbers = self.numbers()
            made = make(self._newest_of(numbers))
            if made is None:
                return None
            request = replace(made, number=max(numbers, default=0) + 1)
            if self.store.put_new(paths.rescale_path(request.number), encode_request(request)):
                return request

    def drop(self, *, up_to: int) -> None:
        """Delete the requests up to a number, which do not count any more."""
        self.store.delete([paths.rescale_path(number) for number in self.numbers() if number <= up_to])

    def _newest_of(self, numbers: Sequence[int]) -> RescaleRequest | None:
        for number in reversed(numbers):
            try:
                request = self.get(number)
            except CorruptStateError:
                continue
            if request is not None:
                return request
        return None
