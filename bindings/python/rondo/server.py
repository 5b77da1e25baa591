# SPDX-License-Identifier: Apache-2.0
"""The learner's end: a server, the batches that come out of it, and how it listens."""

from __future__ import annotations

import gc
import ipaddress
import logging
import operator
import site
import socket
import sys
import time
from collections.abc import Generator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import optree

from rondo import _core, _tree
from rondo._aio import completed
from rondo._core import SampleInfo
from rondo._exit import close_at_exit

_log = logging.getLogger("rondo")


class Sample(NamedTuple):
    """A batch, read in place, and the server's numbers when it was taken.

    ``batch`` is the example's tree; each leaf is a ``numpy.ndarray`` ``[batch_size, *shape]`` in
    the server's own memory. That memory is yours as long as anything refers to it: an array, a
    slice, a reshape, a tensor that shares it; also after the server is gone. When the last of them
    goes, the server may fill it anew.
    """

    batch: Any
    info: SampleInfo

    @property
    def dlpack(self) -> Any:
        """The same tree of objects for ``from_dlpack`` of torch, JAX, CuPy, numpy.

        A tensor made of one shares the memory and holds the batch. It is announced as page-locked
        if it is, and as read-only to consumers that understand that; others must not write.
        """
        return optree.tree_map(_for_dlpack, self.batch)

    def release(self) -> None:
        """Gives the memory back now. The arrays in ``batch`` are empty from then on.

        Raises ``BufferError`` if anything else still refers to the memory, a view or just a
        variable: nobody's data changes unseen. Idempotent; does nothing for copies.
        """
        _core.release(optree.tree_leaves(self.batch))


class TcpTransport:
    """How a server listens for TCP connections, in the protocol of id-echo (echo/1).

    Args:
        port: 0 lets the system choose; ``Server.port`` tells.
        num_threads: The most threads that serve connections. rondo never uses more than half of the
            cores, nor more than 4: from 4 on this changes nothing.
        host: The address or name to listen on. None is all interfaces, as in id-echo, to which
            anybody who reaches this machine can connect: there is no authentication.
    """

    def __init__(self, port: int, num_threads: int = 8, *, host: str | None = None) -> None:
        self.port = operator.index(port)
        self.num_threads = operator.index(num_threads)
        self.host = host
        if not 0 <= self.port <= 65535:
            raise OverflowError(f"port must be 0 to 65535, got {port}")
        if self.num_threads < 0:
            raise OverflowError(f"num_threads must not be negative, got {num_threads}")

    def __repr__(self) -> str:
        return f"TcpTransport(port={self.port}, num_threads={self.num_threads}, host={self.host!r})"

    def _addresses(self) -> list[str]:
        """Numeric addresses to try in turn."""
        if self.host is None:
            return ["::", "0.0.0.0"]  # the second for machines without IPv6
        try:
            return [str(ipaddress.ip_address(self.host))]
        except ValueError:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(info[4][0]) for info in found))

    def _io_threads(self) -> int:
        return self.num_threads if 0 < self.num_threads < 4 else 0


class Server(_core.BaseServer):
    """Assembles the samples of many actors into batches for a learner.

    Args:
        example: A tree of numpy arrays (any tree of optree): what every sample looks like.
        batch_size: Samples in a batch.
        transport: How to listen; omit it to ``submit`` from this process only.
        num_buffers: Batches in the ring. As many may be ready or held at once; with all of them
            held, ``sample`` raises.
        num_drainers: Accepted for id-echo's sake. There are no such threads: the thread that reads
            a connection writes the ring.
        producer_queue_size: Accepted for id-echo's sake. There is no queue before the ring.
        pin_host_memory: Page-lock the ring with CUDA. Kept, or a ``RuntimeError`` that tells all
            that was tried.

    Thread-safe: any thread may sample, submit and close. Not to be used in a forked child.
    """

    def __init__(
        self,
        example: Any,
        batch_size: int,
        transport: TcpTransport | None = None,
        num_buffers: int = 3,
        num_drainers: int = 8,
        producer_queue_size: int = 8,
        pin_host_memory: bool = False,
    ) -> None:
        if transport is not None and not isinstance(transport, TcpTransport):
            raise ValueError("transport must be TcpTransport")
        for name, number in (
            ("num_drainers", num_drainers),
            ("producer_queue_size", producer_queue_size),
        ):
            _at_least(name, number, 0)
        super().__init__(
            _tree.describe(example),
            Sample,
            batch_size=_at_least("batch_size", batch_size, 1),
            num_buffers=_at_least("num_buffers", num_buffers, 1),
            pin_host_memory=pin_host_memory,
            site_directories=_site_directories() if pin_host_memory else [],
            io_threads=0 if transport is None else transport._io_threads(),
        )
        self._transport = transport
        self._port: int | None = None
        close_at_exit(self)

    def start(self) -> None:
        """Starts to listen; the port is bound when this returns.

        Raises ``RuntimeError`` without a transport, the second time, or if the address cannot be
        listened on.
        """
        transport = self._need_transport()
        if self._port is not None:
            raise RuntimeError("failed to start transport: TCP server already started")
        addresses = transport._addresses()
        for address in addresses:
            try:
                self._port = self._listen(address, transport.port)
                break
            except RuntimeError as error:
                if address == addresses[-1] or "in use" in str(error):
                    raise
        if transport.host is None:
            _log.warning(
                "listening on all interfaces, port %d, without authentication: "
                "TcpTransport(port, host='127.0.0.1') keeps it to this machine",
                self._port,
            )

    @property
    def port(self) -> int:
        """The port it listens on; ``RuntimeError`` before ``start``."""
        self._need_transport()
        if self._port is None:
            raise RuntimeError("transport not started; call start() first")
        return self._port

    async def asample(
        self,
        *,
        timeout: float | None = None,
        writable: bool = False,
        wait_for_release: bool = False,
    ) -> Sample | None:
        """``sample`` for coroutines, on the running event loop.

        A batch that is ready is returned without suspending. When cancelled, no batch is lost. It
        raises if the next batch needs a buffer that anybody holds, unless ``wait_for_release``.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        collected = False
        while True:
            # Taken here and not by the event loop, where a task may be cancelled with it in hand.
            now, sample = self._try_sample(writable)
            if now in (_core.Now.sample, _core.Now.ended):
                return sample
            if now == _core.Now.held and not wait_for_release:
                if collected:
                    raise RuntimeError(_core.ALL_HELD)
                gc.collect()
                collected = True
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if not await completed(
                lambda bridge, future: self._wait_for_batch(bridge, future, left, wait_for_release)
            ):
                raise TimeoutError("no batch was complete before the timeout")

    def __aiter__(self) -> _Samples:
        """Batches until the server is closed and empty; keeps none itself."""
        return _Samples(self)

    def dataset_iter(self, *, copy: bool = False) -> Generator[Sample, None, None]:
        """Yields samples until the server is closed and empty.

        Holds none itself while you work on it. With ``copy`` the arrays are yours, writable, and
        the ring's memory is free again before you get them.
        """
        while True:
            # In a list, so that nothing here refers to it during the yield.
            samples = [self.sample()]
            if samples[0] is None:
                return
            if copy:
                samples = [_copied(samples.pop())]
            yield samples.pop()  # type: ignore[misc]  # not None

    def reset_histograms(self) -> None:
        """Empties the histograms of later ``SampleInfo``s; counters and gauges stay.

        Only a package built with ``-Ccmake.define.RONDO_DETAILED_METRICS=ON`` has any to empty.
        """
        self._reset_histograms()

    def _need_transport(self) -> TcpTransport:
        if self._transport is None:
            raise RuntimeError("no transport configured; pass TcpTransport to __init__")
        return self._transport

    def _close_at_exit(self) -> None:
        self.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "in-process" if self._transport is None else f"port {self._port or 'not bound'}"
        return f"<rondo.Server {self.spec}, {where}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a rondo.Server cannot be pickled: it is memory and sockets of this process. Give "
            "actors the host and the port, and let each make a rondo.TcpClient"
        )


class _Samples:
    def __init__(self, server: Server) -> None:
        self._server = server

    def __aiter__(self) -> _Samples:
        return self

    async def __anext__(self) -> Sample:
        sample = await self._server.asample()
        if sample is None:
            raise StopAsyncIteration
        return sample


def _for_dlpack(array: np.ndarray[Any, Any]) -> _core.DLPackArray:
    pinned = isinstance(array.base, _core.Lease) and array.base.pinned
    return _core.DLPackArray(array, pinned)


def _at_least(name: str, number: int, least: int) -> int:
    number = operator.index(number)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if number >= 2**64:
        raise OverflowError(f"{name} must be less than 2**64, got {number}")
    return number


def _copied(sample: Sample | None) -> Sample | None:
    if sample is None:
        return None
    return Sample(optree.tree_map(np.copy, sample.batch), sample.info)


def _site_directories() -> list[str]:
    """Where this interpreter finds packages, NVIDIA's wheels among them."""
    found = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
    return [path for path in dict.fromkeys(found) if path.rstrip("/").endswith("-packages")]
