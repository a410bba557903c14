"""Connections → those that ask for something: who sends no headers in time, or is one of too many, is sent away.

All peers are on this machine and share one address, so what is limited is silence: a request of the page sends its
headers at once, and can be kept out neither by few connections that stay silent for long nor by many.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 10.0
"""Seconds from the opening of a connection, or from the first byte of a later request, to the end of its headers."""

MOST_SILENT = 64
"""Connections that may wait for their headers at a time; of more, the oldest is closed."""


class Connection(H11Protocol):
    """A connection that is closed unless the headers of a request arrive in time."""

    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Hand over what came; begin to wait for headers, go on, or stop."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._since, self._deadline = self.loop.time(), self.loop.call_later(PATIENCE, self._send_away)
        silent = [peer for peer in self.connections if isinstance(peer, Connection) and peer._deadline is not None]
        if len(silent) > MOST_SILENT:
            min(silent, key=lambda peer: peer._since)._send_away()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _send_away(self) -> None:
        self._stop_waiting()
        self.transport.close()
