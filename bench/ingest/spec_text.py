# SPDX-License-Identifier: Apache-2.0
"""Reads bench/specs.txt."""

import math
import pathlib
import re
from typing import NamedTuple

ITEM_BYTES = {"bool": 1, "uint8": 1, "float16": 2, "float32": 4, "int32": 4, "float64": 8}
SPECS = pathlib.Path(__file__).resolve().parent.parent / "specs.txt"


class Array(NamedTuple):
    path: str
    dtype: str
    shape: tuple


def parse(text):
    """`obs:float32[4],reward:float32[]` as a list of `Array`; the paths there have no escapes."""
    arrays = [Array(path, dtype, tuple(int(extent) for extent in shape.split(",") if extent))
              for path, dtype, shape in re.findall(r"(\w+):(\w+)\[([\d,]*)\]", text)]
    if ",".join(f"{a.path}:{a.dtype}[{','.join(map(str, a.shape))}]" for a in arrays) != text:
        raise ValueError(f"not a spec of this file's kind: {text}")
    return arrays


def payload_bytes(arrays):
    return sum(ITEM_BYTES[a.dtype] * math.prod(a.shape) for a in arrays)


def read_specs():
    """Name to text, in the order of the file. Each spec has the size that the head of the file
    says, and so has its variant of one array."""
    text = SPECS.read_text()
    specs = dict(re.split(r"\s*=\s*", line) for line in text.splitlines()
                 if line and not line.startswith("#"))
    table = re.findall(r"^# (\w+) +([\d,]+) +(\d+)$", text, re.MULTILINE)
    said = {name: (int(size.replace(",", "")), int(arrays)) for name, size, arrays in table}
    said |= {f"{name}_one": (size, 1) for name, (size, _) in said.items()}
    real = {name: (payload_bytes(parse(spec)), len(parse(spec))) for name, spec in specs.items()}
    if said != real:
        wrong = sorted(name for name in said | real if said.get(name) != real.get(name))
        raise ValueError(f"{SPECS}: its head does not fit the specs {', '.join(wrong)}")
    return specs
