# SPDX-License-Identifier: Apache-2.0
"""Batches for consumers of DLPack. torch and JAX run where they are installed."""

import gc

import ml_dtypes
import numpy as np
import pytest
from conftest import numbered

import rondo

EXAMPLE = {
    "obs": np.zeros((2, 3), np.float32),
    "n": (np.zeros((), np.int64), np.zeros(4, np.bool_)),
}


def taken(example=EXAMPLE, **options):
    server = rondo.Server(example, 2, num_buffers=2)
    server.submit(numbered(example, 1))
    server.submit(numbered(example, 0))
    return server, server.sample(**options)


@pytest.mark.fast
def test_the_tree_has_the_same_structure_and_shares_the_memory():
    _, sample = taken()
    tree = sample.dlpack
    assert tree.keys() == sample.batch.keys() and type(tree["n"]) is tuple
    for exported, array in (
        (tree["obs"], sample.batch["obs"]),
        (tree["n"][1], sample.batch["n"][1]),
    ):
        assert exported.__dlpack_device__() == (1, 0)
        back = np.from_dlpack(exported)
        assert back.dtype == array.dtype and back.shape == array.shape
        assert back.ctypes.data == array.ctypes.data
        assert not back.flags.writeable
        np.testing.assert_array_equal(back, array)


@pytest.mark.fast
def test_each_of_them_holds_the_lease():
    server, sample = taken()
    exported = sample.dlpack["obs"]
    del sample
    assert server.metrics()["live_leases"] == 1
    tensor = np.from_dlpack(exported)
    del exported
    gc.collect()
    assert server.metrics()["live_leases"] == 1
    np.testing.assert_array_equal(tensor[:, 0, 0], [1, 0])
    del tensor
    gc.collect()
    assert server.metrics()["live_leases"] == 0


@pytest.mark.fast
def test_a_capsule_that_nobody_takes_is_freed():
    server, sample = taken()
    capsules = [
        sample.dlpack["obs"].__dlpack__(),
        sample.dlpack["obs"].__dlpack__(max_version=(1, 0)),
    ]
    assert "dltensor_versioned" in repr(capsules[1]) and "versioned" not in repr(capsules[0])
    del sample
    assert server.metrics()["live_leases"] == 1
    capsules.clear()
    gc.collect()
    assert server.metrics()["live_leases"] == 0


def test_a_writable_batch_is_writable_there_too():
    _, sample = taken(writable=True)
    back = np.from_dlpack(sample.dlpack["obs"])
    back[:] = 9
    assert (sample.batch["obs"] == 9).all()


def test_a_copy_is_the_consumers_own():
    server, sample = taken()
    copy = np.from_dlpack(sample.dlpack["obs"], copy=True)
    del sample
    gc.collect()
    assert server.metrics()["live_leases"] == 0
    np.testing.assert_array_equal(copy[:, 0, 0], [1, 0])


@pytest.mark.parametrize("dtype", [*"?bBhHiIqQefdFD"])
def test_every_dtype_that_dlpack_names(dtype):
    _, sample = taken({"x": np.zeros(3, dtype)})
    back = np.from_dlpack(sample.dlpack["x"])
    assert back.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(back, sample.batch["x"])


def test_what_cannot_be_had_is_a_buffer_error():
    _, sample = taken({"x": np.zeros(3, np.longdouble), "b": np.zeros(3, ml_dtypes.bfloat16)})
    with pytest.raises(BufferError, match="longdouble|float128"):
        sample.dlpack["x"].__dlpack__()
    assert sample.dlpack["b"].__dlpack__() is not None
    with pytest.raises(BufferError, match="host"):
        sample.dlpack["b"].__dlpack__(dl_device=(2, 0))


def test_release_knows_of_tensors():
    _, sample = taken()
    tensor = np.from_dlpack(sample.dlpack["obs"])
    with pytest.raises(BufferError):
        sample.release()
    del tensor
    gc.collect()
    sample.release()


def test_torch_shares_the_memory():
    torch = pytest.importorskip("torch")
    server, sample = taken({"x": np.zeros(3, np.float32), "b": np.zeros(3, ml_dtypes.bfloat16)})
    tensors = {name: torch.from_dlpack(leaf) for name, leaf in sample.dlpack.items()}
    assert tensors["x"].data_ptr() == sample.batch["x"].ctypes.data
    assert tensors["b"].dtype == torch.bfloat16
    del sample
    part = tensors["x"][0, 1:]
    tensors.clear()
    gc.collect()
    assert server.metrics()["live_leases"] == 1
    assert part.tolist() == [1, 1]
    del part
    gc.collect()
    assert server.metrics()["live_leases"] == 0


def test_jax_on_the_cpu_may_alias_and_then_holds_the_batch():
    jax = pytest.importorskip("jax")
    server, sample = taken({"x": np.zeros(64, np.float32)})
    arrays = [jax.numpy.asarray(sample.batch["x"]), jax.numpy.from_dlpack(sample.dlpack["x"])]
    expected = sample.batch["x"].copy()
    del sample
    gc.collect()
    for number in range(2, 20):  # the ring goes round, if it can
        try:
            server.submit({"x": np.full(64, number, np.float32)}, timeout=0)
            server.submit({"x": np.full(64, number, np.float32)}, timeout=0)
            server.sample()
        except (TimeoutError, RuntimeError):
            break
    for array in arrays:
        np.testing.assert_array_equal(np.asarray(array), expected)
