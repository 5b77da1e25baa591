# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from rondo import TrajectoryAccumulator


def test_a_buffered_timescale_takes_one_row_at_a_time():
    gather = TrajectoryAccumulator({"step": {"obs": np.zeros((3, 2), np.float32)}})
    for number in range(3):
        gather.add("step", {"obs": np.full((1, 2), number, np.float32)})
    np.testing.assert_array_equal(gather.build()["step"]["obs"], [[0, 0], [1, 1], [2, 2]])


def test_a_single_timescale_takes_the_whole_leaf():
    gather = TrajectoryAccumulator(
        {"end": {"value": np.zeros((), np.float32)}, "last": {"obs": np.zeros((1, 2))}}
    )
    gather.add("end", {"value": np.float32(7)})
    gather.add("last", {"obs": np.ones((1, 2))})
    tree = gather.build()
    assert tree["end"]["value"] == 7
    np.testing.assert_array_equal(tree["last"]["obs"], [[1, 1]])


def test_build_and_reset_begin_anew_in_the_same_memory():
    gather = TrajectoryAccumulator({"step": np.zeros(2)})
    gather.add("step", np.ones(1))
    gather.reset()
    gather.add("step", np.full(1, 2.0))
    gather.add("step", np.full(1, 3.0))
    first = gather.build()
    np.testing.assert_array_equal(first["step"], [2, 3])
    gather.add("step", np.full(1, 4.0))
    assert gather.build()["step"] is first["step"]


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="must be a dict"):
        TrajectoryAccumulator([])
    with pytest.raises(ValueError, match="'empty' has no array leaves"):
        TrajectoryAccumulator({"empty": {}})
    with pytest.raises(ValueError, match="same leading dimension"):
        TrajectoryAccumulator({"step": (np.zeros(2), np.zeros(3))})
    gather = TrajectoryAccumulator({"step": np.zeros(2)})
    with pytest.raises(KeyError, match="Unknown timescale 'other'"):
        gather.add("other", np.zeros(1))
    gather.add("step", np.zeros(1))
    gather.add("step", np.zeros(1))
    with pytest.raises(IndexError, match="2 slots"):
        gather.add("step", np.zeros(1))
