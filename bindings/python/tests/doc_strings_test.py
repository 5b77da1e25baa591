# SPDX-License-Identifier: Apache-2.0
"""Every public name says what it is, for help() and editors."""

import inspect

import pytest

import rondo

PUBLIC = [getattr(rondo, name) for name in rondo.__all__ if name != "__version__"]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_everything_public_is_documented(thing):
    assert inspect.getdoc(thing)
    for name, member in inspect.getmembers(thing):
        if name.startswith("_") or name in dir(tuple) or name in dir(ConnectionError):
            continue
        if callable(member) or isinstance(member, property):
            assert inspect.getdoc(member), name


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_an_object_says_what_it_is(thing, make_server, make_client, example):
    if thing in (rondo.Server, rondo.TcpClient):
        server = make_server(example)
        text = repr(server if thing is rondo.Server else make_client(server, example))
        assert "obs:float32[4],reward:float32[]" in text and str(server.port) in text
    if thing is rondo.TcpTransport:
        assert repr(rondo.TcpTransport(5)) == "TcpTransport(port=5, num_threads=8, host=None)"
