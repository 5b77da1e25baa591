# SPDX-License-Identifier: Apache-2.0
"""What all tests share: servers that are closed at the end."""

import numpy as np
import pytest

import rondo


@pytest.fixture
def make_server():
    """Makes started servers on loopback."""
    servers = []

    def make(example, batch_size=4, **options):
        server = rondo.Server(
            example, batch_size, rondo.TcpTransport(0, host="127.0.0.1"), **options
        )
        server.start()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def make_client():
    clients = []

    def make(server, example, *args, **options):
        client = rondo.TcpClient("127.0.0.1", server.port, example, *args, **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close(timeout=0)


@pytest.fixture
def example():
    return {"obs": np.zeros(4, np.float32), "reward": np.zeros((), np.float32)}


def numbered(example, number):
    """The example with every element set to `number`."""
    if isinstance(example, dict):
        return {key: numbered(below, number) for key, below in example.items()}
    if isinstance(example, (list, tuple)):
        return type(example)(numbered(below, number) for below in example)
    return np.full(example.shape, number, example.dtype)
