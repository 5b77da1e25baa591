# SPDX-License-Identifier: Apache-2.0
"""An actor's end: a connection to a learner's server."""

from __future__ import annotations

import math
import operator
from typing import Any, NoReturn

from rondo import _core, _tree
from rondo._core import ConnectionClosedError
from rondo._exit import close_at_exit

__all__ = ["ConnectionClosedError", "TcpClient"]

_NEVER = 10 * 365 * 24 * 3600.0


def checked_window(samples: int) -> int:
    samples = operator.index(samples)
    if not 1 <= samples < 2**32:
        raise ValueError(f"max_inflight_msgs must be 1 to 2**32 - 1, got {samples}")
    return samples


def checked_timeout(seconds: float | None) -> float:
    timeout = _NEVER if seconds is None else seconds
    if not 0 < timeout < math.inf:
        raise ValueError(f"connect_timeout must be a positive number, got {seconds}")
    return timeout


class TcpClient(_core.BaseClient):
    """Sends samples to a server over TCP, in order.

    Args:
        host: Name or address of the server.
        port: Its port.
        data_sample: A tree of numpy arrays like those that will be sent; the server's must agree.
        max_inflight_msgs: Samples that may be sent and not yet acknowledged; ``send`` waits beyond
            it. An acknowledgement means that the sample is in the server's ring.
        connect_timeout: Seconds for name resolution, connecting and the greeting together; None
            leaves it to the system.

    Raises ``ConnectionRefusedError``, ``socket.gaierror``, ``TimeoutError`` or another ``OSError``
    if there is no connection; ``ValueError`` if the peer is no such server, or its samples differ.

    Thread-safe. All clients of a process share one background thread. Not to be used in a forked
    child.
    """

    def __init__(
        self,
        host: str,
        port: int,
        data_sample: Any,
        max_inflight_msgs: int = 32,
        *,
        connect_timeout: float | None = 10.0,
    ) -> None:
        port = operator.index(port)
        if not 0 <= port <= 65535:
            raise OverflowError(f"port must be 0 to 65535, got {port}")
        window, timeout = checked_window(max_inflight_msgs), checked_timeout(connect_timeout)
        self._peer = f"{host}:{port}"
        super().__init__(host, port, _tree.describe(data_sample), window, timeout)
        close_at_exit(self)

    def _close_at_exit(self) -> None:
        self.close(timeout=1.0)

    def __enter__(self) -> TcpClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rondo.TcpClient to {self._peer}, {self.spec}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a rondo.TcpClient cannot be pickled: it is a connection of this process. Give the "
            "other process the host and the port, and let it make its own"
        )
