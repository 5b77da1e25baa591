# SPDX-License-Identifier: Apache-2.0
"""Gathers the steps of a trajectory into one sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree


class TrajectoryAccumulator:
    """Gathers steps, of several timescales, into the arrays of one sample.

    Args:
        example: A dict from the name of a timescale to a tree of arrays. A timescale whose leaves
            share a first dimension N > 1 takes N steps, each into its row. One with a leaf of no
            dimension, or whose leaves all begin with a dimension of 1, takes a single step, whole.

    Not thread-safe.
    """

    def __init__(self, example: dict[str, Any]) -> None:
        if not isinstance(example, dict):
            raise TypeError("example must be a dict with timescale names as top-level keys")
        self._capacity = {name: _capacity(name, tree) for name, tree in example.items()}
        self._single = {name: _is_single(tree) for name, tree in example.items()}
        self._tree = {name: optree.tree_map(np.zeros_like, tree) for name, tree in example.items()}
        self._filled = dict.fromkeys(example, 0)

    def add(self, name: str, data: Any) -> None:
        """Writes one step of timescale ``name`` into its next row.

        Raises ``KeyError`` for an unknown timescale and ``IndexError`` for one that is full.
        """
        if name not in self._capacity:
            raise KeyError(f"Unknown timescale '{name}'. Known: {list(self._capacity)}")
        row, capacity = self._filled[name], self._capacity[name]
        if row >= capacity:
            raise IndexError(
                f"Timescale '{name}' has {capacity} slots, but you tried to add at index {row}"
            )
        where = ... if self._single[name] else slice(row, row + 1)

        def write(rows: Any, step: Any) -> None:
            rows[where] = step

        optree.tree_map_(write, self._tree[name], data)
        self._filled[name] = row + 1

    def build(self) -> dict[str, Any]:
        """The tree as filled so far; the next ``add`` begins anew.

        It is the accumulator's own memory: use it, e.g. send it, before the next ``add``.
        """
        self.reset()
        return self._tree

    def reset(self) -> None:
        """Begins anew, e.g. when an episode is aborted."""
        self._filled = dict.fromkeys(self._filled, 0)


def _is_single(tree: Any) -> bool:
    leaves = optree.tree_leaves(tree)
    return any(leaf.ndim == 0 for leaf in leaves) or all(leaf.shape[0] == 1 for leaf in leaves)


def _capacity(name: str, tree: Any) -> int:
    leaves = optree.tree_leaves(tree)
    if not leaves:
        raise ValueError(f"Timescale '{name}' has no array leaves")
    if _is_single(tree):
        return 1
    rows = [leaf.shape[0] for leaf in leaves]
    if len(set(rows)) > 1:
        raise ValueError(
            f"All leaves in buffered timescale '{name}' must share the same leading dimension "
            f"(got {rows}); make any leaf 0-d or all shape (1, ...) to mark the timescale "
            "single-item instead"
        )
    return int(rows[0])
