"""A backend that measures the time of its reads and writes."""

from collections.abc import Sequence

from typing_extensions import override

from mixedmode.profile import Profile
from mixedmode.state.backend import KeyedStateBackend, PrefixRows, StateRange


class ProfiledBackend(KeyedStateBackend):
    """KeyedStateBackend that delegates to another one; each call is a stage of the profile."""

    def __init__(self, backend: KeyedStateBackend, profile: Profile) -> None:
        self._backend = backend
        self._profile = profile

    @property
    @override
    def drops_writes(self) -> bool:
        return self._backend.drops_writes

    @property
    @override
    def starts_empty(self) -> bool:
        return self._backend.starts_empty

    @override
    def read(self, state_id: int, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        with self._profile.stage("read state"):
            return self._backend.read(state_id, keys)

    @override
    def scan(self, state_id: int, start: bytes, end: bytes, bytes_max: int | None = None) -> StateRange:
        with self._profile.stage("read state"):
            return self._backend.scan(state_id, start, end, bytes_max)

    @override
    def scan_ranges(
        self, state_id: int, ranges: Sequence[tuple[bytes, bytes]], entries_max: int
    ) -> tuple[StateRange, int]:
        with self._profile.stage("read state"):
            return self._backend.scan_ranges(state_id, ranges, entries_max)

    @override
    def scan_prefixes(
        self,
        state_id: int,
        prefixes: Sequence[bytes],
        limits: Sequence[int] | None = None,
        bytes_max: int | None = None,
    ) -> PrefixRows:
        with self._profile.stage("read state"):
            return self._backend.scan_prefixes(state_id, prefixes, limits, bytes_max)

    @override
    def write(self, state_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        with self._profile.stage("write state"):
            self._backend.write(state_id, keys, values)
