# SPDX-License-Identifier: Apache-2.0
"""What actor.py and learner.py exchange: nested, every dtype, 1 MB. Each leaf says whose it is."""

import ml_dtypes
import numpy as np

DTYPES = [*"?bBhHiIlLqQefdFDgG", ml_dtypes.bfloat16]

EXAMPLE = {
    "id": np.zeros((), np.int64),
    "obs": {"image": np.zeros((3, 2), np.uint8), "state": [np.zeros(4, np.float32), np.zeros(1)]},
    "end": (np.zeros((), np.bool_), np.zeros((), np.float16)),
    "megabyte": np.zeros((512, 512), np.float32),
    "dtypes": {
        f"{i:02}": {"scalar": np.zeros((), dtype), "matrix": np.zeros((2, 2), dtype)}
        for i, dtype in enumerate(DTYPES)
    },
}


def value(leaf, number):
    return np.full(leaf.shape, number).astype(leaf.dtype)
