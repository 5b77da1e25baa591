# SPDX-License-Identifier: Apache-2.0
"""Moves reinforcement-learning experience from actors to learners."""

from rondo._core import HistSnapshot, SampleInfo, __version__
from rondo.async_tcp_client import AsyncTcpClient
from rondo.server import Sample, Server, TcpTransport
from rondo.tcp_client import ConnectionClosedError, TcpClient
from rondo.trajectory_accumulator import TrajectoryAccumulator

__all__ = [
    "AsyncTcpClient",
    "ConnectionClosedError",
    "HistSnapshot",
    "Sample",
    "SampleInfo",
    "Server",
    "TcpClient",
    "TcpTransport",
    "TrajectoryAccumulator",
    "__version__",
]
