# SPDX-License-Identifier: Apache-2.0
"""learner.py MODULE BATCH_SIZE BATCHES: a program for id-echo, whose import is an argument.

Prints its port, then the numbers of the samples that came, each of which it has checked.
"""

import importlib
import os
import sys

import numpy as np
import optree
from specs import EXAMPLE, value

module, batch_size, batches = sys.argv[1:]
echo = importlib.import_module(module)

server = echo.Server(
    EXAMPLE, int(batch_size), echo.TcpTransport(port=0), num_buffers=int(batches) + 1
)
server.start()
print(server.port, flush=True)

numbers = []
for _, sample in zip(range(int(batches)), server.dataset_iter()):
    for row in range(int(batch_size)):
        number = int(sample.batch["id"][row])
        numbers.append(number)

        def check(leaf, got):
            assert got.dtype == leaf.dtype and got[row].shape == leaf.shape
            np.testing.assert_array_equal(got[row], value(leaf, number))

        optree.tree_map_(check, EXAMPLE, sample.batch)
print(*numbers, flush=True)
server.close()
os._exit(0)  # id-echo's server may still have threads of its own
