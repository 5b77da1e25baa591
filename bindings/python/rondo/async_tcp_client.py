# SPDX-License-Identifier: Apache-2.0
"""An actor's end for asyncio."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NoReturn

from rondo import _core, _tree
from rondo._aio import completed
from rondo.tcp_client import checked_timeout, checked_window


class AsyncTcpClient(_core.BaseAsyncClient):
    """``TcpClient`` for coroutines: each call awaits on the running event loop.

    Made by ``await AsyncTcpClient.connect(...)``. A call that is cancelled has ended, and its
    arrays may be changed, when ``CancelledError`` is raised; a sample is sent whole or not at all.
    Thread-safe; any event loop may use it. Not to be used in a forked child.
    """

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        data_sample: Any,
        max_inflight_msgs: int = 32,
        *,
        connect_timeout: float | None = 10.0,
    ) -> AsyncTcpClient:
        """Connects as ``TcpClient(...)`` does, with the same arguments and exceptions."""
        port = operator.index(port)
        if not 0 <= port <= 65535:
            raise OverflowError(f"port must be 0 to 65535, got {port}")
        window, timeout = checked_window(max_inflight_msgs), checked_timeout(connect_timeout)
        client = cls(host, port, _tree.describe(data_sample))
        client._peer = f"{host}:{port}"
        await completed(lambda bridge, future: client._connect(bridge, future, window, timeout))
        return client

    _peer: str = "nobody yet"

    async def send(self, data: Any, *, timeout: float | None = None) -> None:
        """Sends one sample; waits while the window is full. Often done without suspending."""
        await completed(lambda bridge, future: self._send(bridge, future, data, timeout))

    async def send_many(self, trees: Iterable[Any], *, timeout: float | None = None) -> None:
        """Sends samples, in order, from a copy."""
        await completed(lambda bridge, future: self._send_many(bridge, future, trees, timeout))

    async def send_batch(self, data: Any, *, timeout: float | None = None) -> None:
        """Sends the samples that are stacked in a tree, ``[n, *shape]`` in each leaf."""
        await completed(lambda bridge, future: self._send_batch(bridge, future, data, timeout))

    async def wait(self, *, timeout: float | None = None) -> None:
        """Waits until every sample sent before is in the server's ring."""
        await completed(lambda bridge, future: self._wait(bridge, future, timeout))

    async def close(self, *, timeout: float | None = 5.0) -> int:
        """Waits for the acknowledgements, closes, and returns how many did not come."""
        return int(await completed(lambda bridge, future: self._close(bridge, future, timeout)))

    async def __aenter__(self) -> AsyncTcpClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<rondo.AsyncTcpClient to {self._peer}, {self.spec}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a rondo.AsyncTcpClient cannot be pickled: it is a connection of this process"
        )
