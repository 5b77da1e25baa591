# SPDX-License-Identifier: Apache-2.0
"""What a program for id-echo 0.2.1 sees: names, signatures, defaults, exceptions, messages."""

import inspect
import logging
import pathlib
import re
import socket
import threading

import numpy as np
import pytest
from conftest import numbered

import rondo
import rondo.server
import rondo.tcp_client
import rondo.trajectory_accumulator
from rondo import ConnectionClosedError, Sample, Server, TcpClient, TcpTransport


def defaults(function):
    return [
        (name, parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]


def test_the_names_are_where_id_echo_has_them():
    for name in (
        "Server",
        "Sample",
        "SampleInfo",
        "HistSnapshot",
        "TcpTransport",
        "TcpClient",
        "ConnectionClosedError",
        "TrajectoryAccumulator",
        "__version__",
    ):
        assert name in rondo.__all__
        assert hasattr(rondo, name)
    assert rondo.server.Server is Server
    assert rondo.server.Sample is Sample
    assert rondo.tcp_client.TcpClient is TcpClient
    assert rondo.tcp_client.ConnectionClosedError is ConnectionClosedError
    assert rondo.trajectory_accumulator.TrajectoryAccumulator is rondo.TrajectoryAccumulator


def test_the_signatures_and_defaults_are_those_of_id_echo():
    none = inspect.Parameter.empty
    assert defaults(Server) == [
        ("example", none),
        ("batch_size", none),
        ("transport", None),
        ("num_buffers", 3),
        ("num_drainers", 8),
        ("producer_queue_size", 8),
        ("pin_host_memory", False),
    ]
    assert defaults(TcpTransport) == [("port", none), ("num_threads", 8)]
    assert defaults(TcpClient) == [
        ("host", none),
        ("port", none),
        ("data_sample", none),
        ("max_inflight_msgs", 32),
    ]
    assert Sample._fields == ("batch", "info")
    assert issubclass(ConnectionClosedError, ConnectionError)
    assert inspect.signature(Server.dataset_iter).parameters["copy"].default is False


def test_the_version_is_that_of_the_library():
    header = pathlib.Path(__file__).resolve().parents[3] / "include/rondo/version.hpp"
    assert rondo.__version__ == re.search('RONDO_VERSION "(.*)"', header.read_text())[1]


@pytest.mark.fast
def test_a_sample_goes_from_a_client_to_a_batch(make_server, make_client, example):
    server = make_server(example)
    client = make_client(server, example)
    for number in range(4):
        assert client.send(numbered(example, number)) is None
    assert client.wait() is None
    batch, info = server.sample()
    np.testing.assert_array_equal(batch["reward"], [0, 1, 2, 3])
    np.testing.assert_array_equal(batch["obs"], np.arange(4)[:, None] * np.ones(4))
    assert batch["obs"].dtype == np.float32
    assert not batch["obs"].flags.writeable
    assert type(batch["obs"]) is np.ndarray
    assert info.store_size == 4
    assert info.active_connections == 1
    assert info.samples_inserted_total == 4
    assert info.memcpy.count >= 0
    assert info.drain_round.p99_ns >= 0
    assert isinstance(info.queue_dwell.mean_ns, float)


def test_every_field_of_id_echo_is_there(example):
    server = Server(example, 1)
    server.submit(example)
    info = server.sample().info
    for name in (
        "store_size active_connections queue_depth_sum queue_depth_max push_blocked_count "
        "samples_inserted_total notify_count cas_success_total cas_failure_total "
        "reservation_retries_total"
    ).split():
        assert isinstance(getattr(info, name), int)
        with pytest.raises(AttributeError):
            setattr(info, name, 1)
    for name in ("drain_round", "memcpy", "queue_dwell"):
        histogram = getattr(info, name)
        assert isinstance(histogram, rondo.HistSnapshot)
        for field in "count min_ns max_ns mean_ns p50_ns p90_ns p99_ns".split():
            assert getattr(histogram, field) >= 0
    assert (info.store_size, info.samples_inserted_total) == (1, 1)
    assert info.batch_age_seconds > 0
    assert server.metrics()["last_batch_age_seconds"] == info.batch_age_seconds


def test_without_a_transport_samples_are_submitted(example):
    server = Server(example, 2)
    server.submit(numbered(example, 1))
    server.submit({"obs": np.full(4, 2, np.float32), "reward": np.float32(2)})
    np.testing.assert_array_equal(server.sample().batch["reward"], [1, 2])
    for call in (server.start, lambda: server.port):
        with pytest.raises(RuntimeError, match="no transport configured"):
            call()


def test_close_delivers_the_complete_batches_and_then_none(example):
    server = Server(example, 2)
    for number in range(5):
        server.submit(numbered(example, number))
    server.close()
    server.close()
    assert [list(s.batch["reward"]) for s in server.dataset_iter()] == [[0, 1], [2, 3]]
    assert server.sample() is None
    with pytest.raises(ConnectionClosedError, match="closed"):
        server.submit(example)
    server.reset_histograms()


@pytest.mark.fast
def test_close_ends_a_sample_that_waits(make_server, example):
    server = make_server(example)
    samples = []
    waiter = threading.Thread(target=lambda: samples.append(server.sample()))
    waiter.start()
    while server.metrics()["consumers_waiting"] == 0:
        pass
    server.close()
    waiter.join()
    assert samples == [None]


def test_dataset_iter_copies_when_asked(example):
    server = Server(example, 1, num_buffers=2)
    kept = []
    iterator = server.dataset_iter(copy=True)
    for number in range(5):
        server.submit(numbered(example, number))
        kept.append(next(iterator))
    assert [s.batch["reward"][0] for s in kept] == list(range(5))
    assert all(s.batch["obs"].flags.writeable and s.batch["obs"].flags.owndata for s in kept)


def test_wrong_arguments_say_what_is_wrong(example):
    with pytest.raises(TypeError, match="All leaves must be numpy arrays"):
        Server({"obs": [1.0]}, 4)
    with pytest.raises(ValueError, match="transport must be TcpTransport"):
        Server(example, 4, transport=5)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        Server(example, 0)
    with pytest.raises(ValueError, match="num_buffers must be at least 1"):
        Server(example, 1, num_buffers=0)
    with pytest.raises(TypeError):
        Server(example, 4.0)
    with pytest.raises(OverflowError, match="batch_size must be less than"):
        Server(example, 2**70)
    with pytest.raises(OverflowError, match="70000"):
        TcpTransport(70000)
    with pytest.raises(ValueError):
        Server({}, 4)
    with pytest.raises(TypeError):
        TcpClient("127.0.0.1", "80", example)
    with pytest.raises(ValueError, match="NUL character at index 9"):
        TcpClient("127.0.0.1\0.example", 80, example)
    with pytest.raises(ValueError, match="max_inflight_msgs"):
        TcpClient("127.0.0.1", 80, example, 0)
    with pytest.raises(MemoryError):
        Server(example, 1 << 50)


def test_starting_twice_or_on_a_port_in_use_is_a_runtime_error(make_server, example):
    server = make_server(example)
    with pytest.raises(RuntimeError, match="failed to start transport: .*already started"):
        server.start()
    other = Server(example, 4, TcpTransport(server.port))
    with pytest.raises(RuntimeError, match="transport not started"):
        _ = other.port
    with pytest.raises(RuntimeError, match="(?i)failed to start transport: .*in use"):
        other.start()


def test_without_a_host_it_listens_everywhere_and_says_so(example, caplog):
    server = Server(example, 4, TcpTransport(0))
    with caplog.at_level(logging.WARNING, "rondo"):
        server.start()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "host=" in lines[0] and str(server.port) in lines[0]
    client = TcpClient("127.0.0.1", server.port, example)
    client.close()
    address = [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)][0]
    TcpClient(address, server.port, example).close()
    server.close()

    caplog.clear()
    named = Server(example, 4, TcpTransport(0, host="localhost"))
    named.start()
    TcpClient("localhost", named.port, example).close()
    named.close()
    assert not caplog.records


def test_connecting_fails_with_the_exceptions_of_sockets(example):
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    with pytest.raises(ConnectionRefusedError):
        TcpClient("127.0.0.1", free.getsockname()[1], example)
    with pytest.raises(socket.gaierror):
        TcpClient("no.such.host.invalid", 1, example)
    with pytest.raises(TypeError, match="must be numpy arrays"):
        TcpClient("127.0.0.1", 1, {"obs": [1.0]})


def answering(greeting):
    """A peer that says `greeting` to one client and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listener.accept()
        connection.sendall(greeting)
        connection.close()
        listener.close()

    thread = threading.Thread(target=answer)
    thread.start()
    return listener.getsockname()[1], thread


def test_a_peer_that_is_no_server_is_told_apart(example):
    for greeting, error, match in (
        (b"HTTP/1.1 400 Bad Request", ValueError, "magic"),
        (b"ECHO\x02\x00\x00\x00\x00", ValueError, "version 2"),
        (b"EC", ConnectionError, "closed"),
    ):
        port, thread = answering(greeting)
        with pytest.raises(error, match=match):
            TcpClient("127.0.0.1", port, example)
        thread.join()


def test_another_spec_is_a_server_spec_mismatch(make_server, example):
    server = make_server(example)
    with pytest.raises(ValueError, match="Server spec mismatch"):
        TcpClient("127.0.0.1", server.port, {"obs": np.zeros(3, np.float32)})


def test_a_payload_of_another_size_says_so(make_server, make_client, example):
    client = make_client(make_server(example), example)
    with pytest.raises(ValueError, match="Payload size 24 != expected 20"):
        client.send({"obs": np.zeros(5, np.float32), "reward": np.zeros((), np.float32)})
    with pytest.raises(ValueError, match="Payload size 16 != expected 20"):
        client.send({"obs": np.zeros(4, np.float32)})


def test_a_closed_client_refuses_to_send(make_server, make_client, example):
    client = make_client(make_server(example), example)
    client.close()
    client.close()
    with pytest.raises(ConnectionClosedError, match=r"TcpClient for 127.0.0.1:\d+.* closed"):
        client.send(example)
    client.wait()  # nothing is in flight


def test_pinning_that_cannot_be_had_is_a_runtime_error_with_the_whole_story(example):
    try:
        Server(example, 4, pin_host_memory=True).close()
    except RuntimeError as error:
        # Every rung of the search, the site directories of this interpreter among them.
        assert "pin_host_memory=True" in str(error)
        assert "soname load" in str(error)
        assert str(pathlib.Path(np.__file__).parents[1]) in str(error)
    else:
        pytest.skip("this machine can page-lock memory")
