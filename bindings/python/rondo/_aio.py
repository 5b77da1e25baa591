# SPDX-License-Identifier: Apache-2.0
"""Calls that complete on the running event loop of asyncio, without a thread for each."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from rondo import _core


class _Bridge:
    """Brings completions to one loop, and keeps the futures of the calls that are under way.

    Owned by the loop, as what it calls when the bridge's descriptor is readable: a loop that is
    closed lets go of it, and of all tasks that wait for such a call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.core = _core.LoopBridge()
        self.pending: set[asyncio.Future[Any]] = set()
        loop.add_reader(self.core.fileno(), self.run)

    def run(self) -> None:
        self.core.run()


_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[_Bridge]] = (
    weakref.WeakKeyDictionary()
)

Start = Callable[[_core.LoopBridge, "asyncio.Future[Any]"], _core.Operation | None]


def _bridge_of(loop: asyncio.AbstractEventLoop) -> _Bridge:
    found = _bridges.get(loop)
    bridge = None if found is None else found()
    if bridge is None:
        bridge = _Bridge(loop)
        _bridges[loop] = weakref.ref(bridge)
    return bridge


async def completed(start: Start) -> Any:
    """Starts a call and waits for what comes of it; None if `start` did all of it already.

    When cancelled, the call has ended, and nothing of it refers to the caller's memory any more,
    before this raises.
    """
    loop = asyncio.get_running_loop()
    bridge = _bridge_of(loop)
    future: asyncio.Future[Any] = loop.create_future()
    operation = start(bridge.core, future)
    if operation is None:
        return None
    bridge.pending.add(future)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        operation.cancel()
        await asyncio.wait([future])
        raise
    finally:
        bridge.pending.discard(future)
        if not future.done():  # the coroutine was dropped
            operation.cancel()
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                future.cancel()
            if loop.is_closed():
                bridge.core.close()
