# SPDX-License-Identifier: Apache-2.0
"""actor.py MODULE PORT FIRST COUNT: a program for id-echo, whose import is an argument.

Sends samples numbered from FIRST, says that they are acknowledged, and closes when told to.
"""

import importlib
import sys

import optree
from specs import EXAMPLE, value

module, port, first, count = sys.argv[1:]
echo = importlib.import_module(module)

client = echo.TcpClient("127.0.0.1", int(port), EXAMPLE)
for number in range(int(first), int(first) + int(count)):
    client.send(optree.tree_map(lambda leaf: value(leaf, number), EXAMPLE))
client.wait()
print("acknowledged", flush=True)
sys.stdin.readline()
client.close()
