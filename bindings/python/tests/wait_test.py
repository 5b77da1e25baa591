# SPDX-License-Identifier: Apache-2.0
"""Waits have time-outs, end at close, at Ctrl-C and when the peer dies, and let others run."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import numbered

import rondo
from rondo import ConnectionClosedError, Server, TcpClient

WINDOW = 4


def fill(server, client, example):
    """Sends until the ring and the window are full."""
    for _ in range(4 * 3 + WINDOW):
        client.send(example)


def waits_of(server, client, example):
    """The blocking calls, each of which waits once `fill` has run."""
    return {
        "send": lambda **options: client.send(example, **options),
        "send_many": lambda **options: client.send_many([example] * 3, **options),
        "send_batch": lambda **options: client.send_batch(
            {"obs": np.zeros((9, 4), np.float32), "reward": np.zeros(9, np.float32)}, **options
        ),
        "wait": lambda **options: client.wait(**options),
        "submit": lambda **options: server.submit(example, **options),
    }


WAITS = ["send", "send_many", "send_batch", "wait", "submit"]


@pytest.fixture
def full(make_server, make_client, example):
    server = make_server(example, 4)
    client = make_client(server, example, WINDOW)
    fill(server, client, example)
    while server.metrics()["samples_inserted_total"] < 12:
        time.sleep(0)
    return server, client


@pytest.mark.fast
@pytest.mark.parametrize("name", WAITS)
def test_a_timeout_is_a_timeout_error_and_loses_nothing(full, example, name):
    server, client = full
    with pytest.raises(TimeoutError):
        waits_of(server, client, example)[name](timeout=0.06)  # longer than one turn
    for _ in range(3):
        assert server.sample(timeout=5) is not None
    client.wait(timeout=5)
    assert client.in_flight == 0
    assert server.metrics()["samples_received_total"] == 12 + WINDOW


@pytest.mark.fast
def test_sample_times_out(make_server, example):
    server = make_server(example)
    with pytest.raises(TimeoutError):
        server.sample(timeout=0)
    with pytest.raises(TimeoutError):
        server.sample(timeout=0.06)
    with pytest.raises(ValueError, match="nan"):
        server.sample(timeout=float("nan"))


@pytest.mark.parametrize("name", WAITS)
def test_close_from_another_thread_ends_a_wait(full, example, name):
    server, client = full
    errors = []

    def wait():
        with pytest.raises(ConnectionClosedError) as caught:
            waits_of(server, client, example)[name]()
        errors.append(caught.value)

    thread = threading.Thread(target=wait)
    thread.start()
    while name == "submit" and server.metrics()["producers_waiting"] < 2:
        time.sleep(0)
    server.close() if name == "submit" else client.close(timeout=0)
    thread.join()
    assert len(errors) == 1


@pytest.mark.parametrize("name", [*WAITS, "sample", "close"])
def test_ctrl_c_ends_a_wait_of_the_main_thread(full, example, name):
    server, client = full
    if name == "sample":
        for _ in range(4):
            server.sample()
        call = server.sample
    elif name == "close":
        call = lambda: client.close(timeout=None)  # noqa: E731
    else:
        call = waits_of(server, client, example)[name]
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        call()


def test_ctrl_c_ends_connecting(example):
    silent = socket.create_server(("127.0.0.1", 0))  # accepts, and says nothing
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        TcpClient("127.0.0.1", silent.getsockname()[1], example)
    with pytest.raises(TimeoutError, match="greeting"):
        TcpClient("127.0.0.1", silent.getsockname()[1], example, connect_timeout=0.05)


def test_a_signal_handler_that_returns_does_not_end_a_wait(make_server, example):
    server = make_server(example)
    seen = []

    def handler(*_):
        seen.append(1)
        for number in range(4):
            server.submit(numbered(example, number))

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGUSR1]).start()
        assert server.sample().batch["reward"][3] == 3
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen


def test_waiting_threads_let_others_run(full, example):
    server, client = full
    calls = list(waits_of(server, client, example).values())
    threads = [threading.Thread(target=call) for call in calls for _ in range(3)]
    for thread in threads:
        thread.start()
    total = sum(range(100_000))  # needs the interpreter
    while any(thread.is_alive() for thread in threads):
        try:
            server.sample(timeout=0.05)
        except TimeoutError:
            # The last batch is short.
            server.submit(example, timeout=1)
    assert total == 4_999_950_000
    for thread in threads:
        thread.join()


def test_thirty_two_threads_submit_at_once():
    example = {"thread": np.zeros((), np.int32), "number": np.zeros((), np.int32)}
    server = Server(example, 64)
    each = 500

    def submit(thread):
        for number in range(each):
            server.submit({"thread": np.int32(thread), "number": np.int32(number)})

    threads = [threading.Thread(target=submit, args=[i]) for i in range(32)]
    for thread in threads:
        thread.start()
    seen = [[] for _ in threads]
    for _ in range(32 * each // 64):
        batch = server.sample().batch
        for thread, number in zip(batch["thread"].tolist(), batch["number"].tolist()):
            seen[thread].append(number)
    for thread in threads:
        thread.join()
    assert all(numbers == list(range(each)) for numbers in seen)


def test_a_wait_for_a_full_ring_says_what_it_waits_for(full):
    server, client = full
    with pytest.raises(TimeoutError, match="4 samples not acknowledged"):
        client.wait(timeout=0.05)


SERVER = """
import numpy as np, rondo, sys
server = rondo.Server({"obs": np.zeros(4, np.float32), "reward": np.zeros((), np.float32)}, 4,
                      rondo.TcpTransport(0, host="127.0.0.1"))
server.start()
print(server.port, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["send", "wait"])
def test_a_server_that_is_killed_ends_the_waits_of_its_clients(example, name):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    client = TcpClient("127.0.0.1", int(process.stdout.readline()), example, WINDOW)
    fill(None, client, example)
    threading.Timer(0.1, process.kill).start()
    with pytest.raises(ConnectionClosedError, match="not acknowledged"):
        client.send(example) if name == "send" else client.wait()
    with pytest.raises(ConnectionClosedError):
        client.send(example)
    assert client.closed
    process.wait()


CLIENT = """
import numpy as np, rondo, sys
client = rondo.TcpClient("127.0.0.1", int(sys.argv[1]), {"x": np.zeros(1 << 20, np.uint8)})
client.send({"x": np.zeros(1 << 20, np.uint8)})
client.wait()
print("sent", flush=True)
while True:
    client.send({"x": np.zeros(1 << 20, np.uint8)})
"""


def test_a_client_that_is_killed_harms_nobody(make_server):
    example = {"x": np.zeros(1 << 20, np.uint8)}
    server = make_server(example, 1)
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(server.port)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "sent\n"
    process.kill()
    process.wait()
    while server.metrics()["active_connections"]:
        try:
            server.sample(timeout=0.05)
        except TimeoutError:
            pass
    with TcpClient("127.0.0.1", server.port, example) as other:
        other.send({"x": np.ones(1 << 20, np.uint8)})
        while not server.sample(timeout=10).batch["x"].all():
            pass


def test_a_large_sample_is_sent_from_its_own_memory_in_turns(make_server, make_client):
    """A send of the main thread comes back every 50 ms to look for signals."""
    example = {"x": np.zeros(24 << 20, np.uint8)}
    server = make_server(example, 1, num_buffers=1)
    client = make_client(server, example)
    sent = threading.Event()

    def learn():
        sent.wait()
        for _ in range(3):
            assert server.sample(timeout=30).batch["x"][0, -1] == 7

    learner = threading.Thread(target=learn)
    learner.start()
    large = {"x": np.full(24 << 20, 7, np.uint8)}
    client.send(large)
    threading.Timer(0.2, sent.set).start()
    client.send(large)  # waits for the learner, in several turns
    client.send(large)
    client.wait()
    learner.join()


def test_the_package_knows_nothing_of_the_source_tree():
    assert pathlib.Path(rondo.__file__).parent != pathlib.Path(__file__).parents[1] / "rondo"
