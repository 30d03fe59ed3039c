"""uvicorn's server, with a limit that counts a connection from its arrival.

uvicorn's own server makes a connection by TLS known after its handshake. So connections that never begin a handshake
would have no limit. They would use up the files that the process of the job may have open.
"""

import asyncio
import socket
from collections.abc import Coroutine

import uvicorn
from typing_extensions import override

from mixedmode.serve.protocol import LimitedProtocol

__all__ = ["AcceptingServer"]

_PAUSE_SECONDS = 0.1  # after an error of the system, such as too many open files


class AcceptingServer(uvicorn.Server):
    """Accepts connections of a protocol up to its limit; each further one ends at once."""

    def __init__(self, config: uvicorn.Config, protocol: type[LimitedProtocol]) -> None:
        super().__init__(config)
        self._protocol = protocol
        self._tasks: set[asyncio.Task[None]] = set()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # so that uvicorn itself accepts nothing
        for listening in sockets or ():
            listening.setblocking(False)
            self._run(self._accept(listening))

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().shutdown(sockets)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self.server_state.connections) < self._protocol.connections_max:
                made = self._protocol(self.config, self.server_state, self.lifespan.state)
                self.server_state.connections.add(made)
                self._run(self._begin(made, accepted))
            else:
                accepted.close()

    async def _begin(self, made: LimitedProtocol, accepted: socket.socket) -> None:
        tls = self.config.ssl
        seconds = None if tls is None else made.head_seconds
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: made, accepted, ssl=tls, ssl_handshake_timeout=seconds
            )
        except (OSError, asyncio.CancelledError):  # no handshake, or the server ends
            self.server_state.connections.discard(made)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
