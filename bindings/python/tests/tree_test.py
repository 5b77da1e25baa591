# SPDX-License-Identifier: Apache-2.0
"""Which trees and arrays can be sent, and what is said of the others."""

import collections

import ml_dtypes
import numpy as np
import optree
import pytest

import rondo

Point = collections.namedtuple("Point", "x y")


@optree.dataclasses.dataclass(namespace="")
class Step:
    obs: np.ndarray
    action: np.ndarray


def there_and_back(example, samples):
    """Inserts the samples one by one and returns the leaves of their batch."""
    server = rondo.Server(example, len(samples))
    for sample in samples:
        server.submit(sample)
    return server.sample().batch


NATIVE = [
    *"? b B h H i I l L q Q e f d F D g G".split(),
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.int4,
    [("a", np.int32), ("b", np.float64)],
]


@pytest.mark.fast
@pytest.mark.parametrize("dtype", NATIVE, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_every_dtype_arrives_as_it_was(dtype, shape):
    rng = np.random.default_rng(7)
    dtype = np.dtype(dtype)
    values = [
        rng.integers(0, 2, (*shape, dtype.itemsize), np.uint8).view(dtype).reshape(shape)
        for _ in range(3)
    ]
    batch = there_and_back({"x": np.zeros(shape, dtype)}, [{"x": value} for value in values])
    assert batch["x"].dtype == dtype
    assert batch["x"].shape == (3, *shape)
    assert batch["x"].tobytes() == b"".join(value.tobytes() for value in values)


TREES = {
    "an array": np.zeros(2),
    "dict": {"b": np.zeros(2), "a": np.zeros(3)},
    "list": [np.zeros(2), np.zeros(3)],
    "tuple": (np.zeros(2), np.zeros(3)),
    "nested": {"z": (np.zeros(1), [np.zeros(2)]), "a": {"q": np.zeros(()), "b": np.zeros(4)}},
    "none": {"a": np.zeros(2), "n": None},
    "ordered": collections.OrderedDict(b=np.zeros(2), a=np.zeros(3)),
    "default": collections.defaultdict(list, {"k": np.zeros(2)}),
    "deque": collections.deque([np.zeros(2), np.zeros(3)]),
    "named tuple": {"p": Point(np.zeros(2), np.zeros(3))},
    "dataclass": Step(np.zeros(2), np.zeros(3)),
    "mixed keys": {1: np.zeros(1), "1": np.zeros(2)},
    "odd keys": {"a/b": np.zeros(1), "~": np.zeros(2), "": np.zeros(3)},
}


@pytest.mark.fast
@pytest.mark.parametrize("name", TREES)
def test_any_tree_of_optree_comes_back_as_it_is(name):
    example = TREES[name]
    leaves, treespec = optree.tree_flatten(example)
    samples = []
    for number in range(2):
        filled = [np.full_like(leaf, 10 * number + i) for i, leaf in enumerate(leaves)]
        samples.append(optree.tree_unflatten(treespec, filled))
    batch = there_and_back(example, samples)
    back, same = optree.tree_flatten(batch)
    assert same == treespec
    for i, leaf in enumerate(back):
        assert leaf.shape == (2, *leaves[i].shape)
        np.testing.assert_array_equal(leaf[0], np.full_like(leaves[i], i))
        np.testing.assert_array_equal(leaf[1], np.full_like(leaves[i], 10 + i))


def test_dicts_come_back_in_the_order_of_the_example_but_travel_sorted():
    server = rondo.Server({"b": np.zeros(1), "a": np.zeros(2)}, 1)
    assert server.spec == "a:float64[2],b:float64[1]"
    server.submit({"a": np.ones(2), "b": np.zeros(1)})
    assert list(server.sample().batch) == ["b", "a"]


def test_another_kind_of_container_with_the_same_paths_is_taken():
    batch = there_and_back(
        {"y": np.zeros(1), "x": np.zeros(2)},
        [
            Point(np.full(2, 1.0), np.full(1, 2.0)),
            collections.OrderedDict(x=np.zeros(2), y=np.ones(1)),
        ],
    )
    np.testing.assert_array_equal(batch["x"], [[1, 1], [0, 0]])
    np.testing.assert_array_equal(batch["y"], [[2], [1]])


def test_every_layout_is_sent_as_it_reads():
    base = np.arange(24, dtype=np.float32)
    layouts = [
        base.reshape(4, 6).T,
        np.asfortranarray(base.reshape(6, 4)),
        np.arange(48, dtype=np.float32).reshape(6, 8)[:, ::2],
        base.reshape(6, 4)[::-1, ::-1],
        np.broadcast_to(np.float32(3), (6, 4)),
        np.lib.stride_tricks.as_strided(base, (6, 4), (4, 4)),
    ]
    unaligned = np.zeros(24 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 4)
    unaligned[:] = base.reshape(6, 4)
    layouts.append(unaligned)
    batch = there_and_back({"x": np.zeros((6, 4), np.float32)}, [{"x": x} for x in layouts])
    for got, expected in zip(batch["x"], layouts):
        np.testing.assert_array_equal(got, expected)


def test_the_other_byte_order_is_converted():
    values = np.arange(4, dtype=">i4")
    batch = there_and_back({"x": np.zeros(4, np.int32)}, [{"x": values}])
    np.testing.assert_array_equal(batch["x"][0], [0, 1, 2, 3])
    batch = there_and_back({"x": np.zeros(4, ">i4")}, [{"x": values}, {"x": values.astype("<i4")}])
    assert batch["x"].dtype.isnative
    np.testing.assert_array_equal(batch["x"], [[0, 1, 2, 3]] * 2)
    record = np.dtype([("a", ">i4")])
    server = rondo.Server({"x": np.zeros(2, [("a", "<i4")])}, 1)
    with pytest.raises(ValueError, match="leaf 'x'"):
        server.submit({"x": np.zeros(2, record)})


@pytest.fixture
def server():
    return rondo.Server(
        {"obs": np.zeros((2, 3), np.float32), "n": {"r": np.zeros((), np.int64)}}, 1
    )


GOOD = {"obs": np.zeros((2, 3), np.float32), "n": {"r": np.int64(1)}}

REFUSED = [
    ({**GOOD, "n": {"r": 1}}, TypeError, "leaf 'n/r' is a int"),
    ({**GOOD, "n": {"r": 1.5}}, TypeError, "leaf 'n/r' is a float"),
    ({**GOOD, "obs": [[0.0] * 3] * 2}, TypeError, "leaf 'obs' is a list"),
    ({**GOOD, "obs": "text"}, TypeError, "leaf 'obs' is a str"),
    ({**GOOD, "obs": np.ma.masked_array(GOOD["obs"])}, TypeError, "leaf 'obs' is a masked array"),
    ({**GOOD, "obs": None}, (TypeError, ValueError), "obs"),
    ({**GOOD, "obs": np.zeros((2, 3), np.int32)}, ValueError, "'obs' is int32.*expected float32"),
    ({**GOOD, "obs": np.zeros((2, 3))}, ValueError, "Payload size 56 != expected 32: leaf 'obs'"),
    ({**GOOD, "obs": np.zeros((3, 2), np.float32)}, ValueError, r"'obs' is float32\[3,2\]"),
    ({**GOOD, "n": {"r": np.uint64(1)}}, ValueError, "'n/r' is uint64"),
    ({**GOOD, "n": {"r": np.datetime64(1, "s")}}, ValueError, "'n/r' is datetime64"),
    ({**GOOD, "n": {"s": np.int64(1)}}, ValueError, "without 'n/r'; with 'n/s'"),
    ({"obs": GOOD["obs"]}, ValueError, "Payload size 24 != expected 32.*without 'n/r'"),
    ({**GOOD, "more": np.zeros(1)}, ValueError, "with 'more'"),
    (GOOD["obs"], ValueError, "not built like the example"),
    ([], ValueError, "not built like the example"),
    (None, ValueError, "not built like the example"),
]


@pytest.mark.fast
@pytest.mark.parametrize("tree, error, match", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_does_not_fit_is_refused_with_its_path(server, tree, error, match):
    with pytest.raises(error, match=match):
        server.submit(tree)
    assert server.metrics()["samples_inserted_total"] == 0
    server.submit(GOOD)


@pytest.mark.parametrize(
    "leaf",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([b"text"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([1], "timedelta64[s]"),
        np.array(["a"], np.dtypes.StringDType()),
        np.zeros(2, [("a", object)]),
    ],
    ids=lambda leaf: str(leaf.dtype),
)
def test_an_example_of_objects_strings_or_dates_is_refused(leaf):
    with pytest.raises(TypeError, match="leaf 'x' has dtype"):
        rondo.Server({"x": leaf}, 1)


def test_dimensions_of_one_may_differ(server):
    server.submit({"obs": np.zeros((1, 2, 3), np.float32), "n": {"r": np.ones((1, 1), np.int64)}})
    assert server.sample().batch["n"]["r"].shape == (1,)


def test_arrays_of_others_are_asked_for_theirs(server):
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.full((2, 3), 4, np.float32)

    server.submit({**GOOD, "obs": Tensor()})
    np.testing.assert_array_equal(server.sample().batch["obs"], np.full((1, 2, 3), 4))


def test_a_dimension_of_zero_is_sent_as_nothing():
    batch = there_and_back(
        {"x": np.zeros((0, 3)), "y": np.zeros(1)}, [{"x": np.zeros((0, 3)), "y": np.ones(1)}]
    )
    assert batch["x"].shape == (1, 0, 3)


@pytest.mark.fast
def test_stacked_samples_are_inserted_in_one_call():
    server = rondo.Server({"x": np.zeros(3, np.float32), "n": np.zeros((), np.int32)}, 4)
    stacked = {
        "x": np.arange(24, dtype=np.float32).reshape(3, 8).T,
        "n": np.arange(8, dtype=">i4"),
    }
    server.submit_batch(stacked)
    first, second = server.sample().batch, server.sample().batch
    np.testing.assert_array_equal(np.vstack([first["x"], second["x"]]), stacked["x"])
    np.testing.assert_array_equal(np.hstack([first["n"], second["n"]]), np.arange(8))
    with pytest.raises(ValueError, match=r"leaf 'x' is float32\[7,3\], expected float32\[8,3\]"):
        server.submit_batch({**stacked, "x": stacked["x"][:7]})
    with pytest.raises(ValueError, match="stacked"):
        server.submit_batch({"x": np.zeros(3, np.float32), "n": np.int32(1)})
