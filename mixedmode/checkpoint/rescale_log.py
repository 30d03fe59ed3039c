"""Where requests to rescale lie: written by whoever asks, read by the driver before each epoch.

The one idea: as with everything else in the folder, a request is created once under the next number, so two who ask at
the same time both get through, one after the other.
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
    """The requests in a checkpoint folder. Reads go to the store each time."""

    store: ObjectStore

    def numbers(self) -> tuple[int, ...]:
        """Numbers of the requests there are, in ascending order: one small listing."""
        listed = (paths.parse_rescale_path(path) for path, _ in self.store.list(paths.PARALLELISM))
        return tuple(sorted(number for number in listed if number is not None))

    def get(self, number: int) -> RescaleRequest | None:
        """One request; None if it is gone.  Raises CorruptStateError if it cannot be read."""
        path = paths.rescale_path(number)
        data = self.store.get(path)
        if data is None:
            return None
        where = f"{self.store.url}/{path}"
        try:
            request = decode_request(data, where=where)
        except CorruptStateError as error:
            msg = (
                "a request to rescale cannot be read, so the job keeps the parallelism that it has. No state is "
                f"affected. Ask once more with `mixedmode rescale`, which takes its place. file={where}"
            )
            raise CorruptStateError(msg) from error
        assert request.number == number, (request.number, where)
        return request

    def newest(self) -> RescaleRequest | None:
        """The request that counts, if it does; None if there is none, or none that can be read."""
        return self._newest_of(self.numbers())

    def add(self, make: Callable[[RescaleRequest | None], RescaleRequest | None]) -> RescaleRequest | None:
        """Store what `make` gives for the newest request, under the next number; again if that was taken meanwhile.

        None, if `make` gives None: there is nothing to ask for.
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
        """Delete requests that do not count any more."""
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
