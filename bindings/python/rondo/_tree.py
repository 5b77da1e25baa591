# SPDX-License-Identifier: Apache-2.0
"""Trees of numpy arrays, where plain dicts, lists and tuples are not enough: optree's part."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree

from rondo import _core


def describe(example: Any) -> _core.Tree:
    """What the leaves of every sample look like: where, of which dtype, of which shape."""
    leaves, treespec = optree.tree_flatten(example)
    return _core.Tree(treespec, paths_of(treespec), leaves)


def paths_of(treespec: optree.PyTreeSpec) -> list[str]:
    """The keys to each leaf joined by `/`, escaped as in JSON pointer."""
    accessors = optree.treespec_accessors(treespec)
    paths = ["/".join(map(_key, accessor)) for accessor in accessors]
    if len(set(paths)) == len(paths):
        return paths
    # e.g. {1: ..., "1": ...}
    return [_escaped(accessor.codify("")) for accessor in accessors]


def _key(entry: Any) -> str:
    name = getattr(entry, "field", None) or getattr(entry, "name", None)
    return _escaped(str(entry.entry if name is None else name))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def leaves_like(
    treespec: optree.PyTreeSpec, paths: list[str], payload_size: int, tree: Any
) -> list[Any]:
    """The leaves of a tree whose paths are the example's, whatever its containers are.

    Raises TypeError or ValueError, and says which leaf is too many or missing, for another one.
    """
    leaves, given = optree.tree_flatten(tree)
    if given == treespec:
        return leaves
    given_paths = paths_of(given)
    if given_paths == paths:
        return leaves
    raise _difference(paths, given_paths, payload_size, leaves)


def _difference(
    paths: list[str], given: list[str], payload_size: int, leaves: list[Any]
) -> Exception:
    for path in paths:
        below = f"{path}/" if path else ""
        if path not in given and any(other.startswith(below) for other in given):
            return TypeError(
                f"leaf '{path}' is a list or another container, not a numpy array: "
                "convert it with numpy.asarray"
            )
    size = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, np.ndarray))
    payload = f"Payload size {size} != expected {payload_size}: " if size != payload_size else ""
    missing = [path for path in paths if path not in given]
    extra = [path for path in given if path not in paths]
    parts = [
        f"{what} {', '.join(map(repr, names))}"
        for what, names in (("without", missing), ("with", extra))
        if names
    ]
    return ValueError(
        f"{payload}the tree is not built like the example: {'; '.join(parts) or 'another order'}"
    )
