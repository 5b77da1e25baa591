# SPDX-License-Identifier: Apache-2.0
"""id-echo's server for run.py: what `ingest serve` is for rondo. Runs in id-echo's environment.

The batches are taken from its Rust core, without the trees that its Python face makes of them.
"""

import argparse
import json
import os
import resource
import sys
import threading
import time

import numpy as np
import spec_text
from echo import TcpTransport
from echo.echo import _Server

parser = argparse.ArgumentParser()
parser.add_argument("--spec", required=True)
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--buffers", type=int, required=True)
parser.add_argument("--drainers", type=int, required=True)
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--queue", type=int, required=True)
parser.add_argument("--ages", action="store_true")
args = parser.parse_args()

arrays = spec_text.parse(args.spec)
server = _Server(
    shapes=[a.shape for a in arrays], dtype_sizes=[spec_text.ITEM_BYTES[a.dtype] for a in arrays],
    batch_size=args.batch_size, transport=TcpTransport(port=0, num_threads=args.threads),
    num_buffers=args.buffers, num_drainers=args.drainers, producer_queue_size=args.queue)
server.start()
print(json.dumps({"port": server.port}), flush=True)

wanted = False


def follow_driver():
    global wanted
    for line in sys.stdin:
        wanted = line == "mark\n"
    os._exit(0)  # its threads may hang


def percentiles(values):
    values = np.sort(np.concatenate(values))
    p50, p99 = values[[int(share * (len(values) - 1)) for share in (0.5, 0.99)]]
    return {"p50_ns": int(p50), "p99_ns": int(p99), "count": len(values)}


def reading(samples):
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * resource.getpagesize()
    return {"samples": samples, "seconds": time.monotonic(),
            "cpu_seconds": usage.ru_utime + usage.ru_stime, "resident_bytes": resident}


threading.Thread(target=follow_driver, daemon=True).start()
samples = 0
ages = []
while True:
    batch, _ = server.sample()
    samples += args.batch_size
    if args.ages:
        now = time.monotonic_ns()
        rows = np.frombuffer(batch[0], np.uint8).reshape(args.batch_size, -1)
        ages.append(now - np.ascontiguousarray(rows[:, :8]).view(np.int64).ravel())
    if wanted:
        wanted = False
        line = reading(samples)
        if ages:
            line["ages"] = percentiles(ages)
            line["youngest"] = percentiles([of_batch.min(keepdims=True) for of_batch in ages])
            ages = []
        print(json.dumps(line), flush=True)
