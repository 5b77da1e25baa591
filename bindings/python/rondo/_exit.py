# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter: every server and client is closed while Python still works."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from rondo import _core


class _Closable(Protocol):
    def _close_at_exit(self) -> None: ...


_open: weakref.WeakSet[_Closable] = weakref.WeakSet()


def close_at_exit(what: _Closable) -> None:
    """Ends its waits before threads are no longer let into the interpreter."""
    _open.add(what)


def _close_all() -> None:
    _core.begin_exit()
    for what in list(_open):
        what._close_at_exit()
    _core.stop_background()


atexit.register(_close_all)
# What a forked child inherited belongs to its parent.
os.register_at_fork(after_in_child=_open.clear)
