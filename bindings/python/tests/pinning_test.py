# SPDX-License-Identifier: Apache-2.0
"""Page-locked batches, with the stand-in for CUDA's runtime that the library's own tests use."""

import pathlib

import numpy as np
import pytest

import rondo

STUBS = pathlib.Path(__file__).resolve().parents[3] / "build/release/tests/pinning_parts"


@pytest.fixture
def runtime(monkeypatch):
    stub = STUBS / "libstub_cudart.so"
    if not stub.exists():
        pytest.skip(f"no {stub}: `make test` builds it")
    monkeypatch.setenv("RONDO_CUDART", str(stub))


def test_pinned_batches_are_announced_as_memory_of_cudas_host(runtime):
    server = rondo.Server(np.zeros(3), 1, pin_host_memory=True)
    server.submit(np.arange(3.0))
    sample = server.sample()
    assert sample.dlpack.__dlpack_device__() == (3, 0)
    # numpy knows only the CPU, asks for that, and gets it.
    np.testing.assert_array_equal(np.from_dlpack(sample.dlpack, device="cpu"), [[0, 1, 2]])
    assert "dltensor" in repr(sample.dlpack.__dlpack__())


def test_an_override_that_is_no_runtime_is_named_in_the_error(monkeypatch, tmp_path):
    wrong = tmp_path / "libcudart.so"
    wrong.write_text("no library")
    monkeypatch.setenv("RONDO_CUDART", str(wrong))
    with pytest.raises(RuntimeError, match=f"(?s)pin_host_memory=True.*{wrong}"):
        rondo.Server(np.zeros(3), 1, pin_host_memory=True)
