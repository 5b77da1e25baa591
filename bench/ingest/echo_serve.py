# SPDX-License-Identifier: Apache-2.0
"""id-echo's server for run.py: what `ingest serve` is for rondo. Runs in id-echo's environment.

The batches are taken from its Rust core, without the trees that its Python face makes of them.
"""

import argparse
import time

import numpy as np
import spec_text
from children import Driver
from echo import TcpTransport
from echo.echo import _Server


def percentiles(ages):
    ages = np.sort(ages)
    p50, p99 = ages[[int(share * (len(ages) - 1)) for share in (0.5, 0.99)]]
    return {"p50_ns": int(p50), "p99_ns": int(p99), "count": len(ages)}


def ages_in(batch, batch_size):
    rows = np.frombuffer(batch[0], np.uint8).reshape(batch_size, -1)
    sent = np.ascontiguousarray(rows[:, :8]).view(np.int64).ravel()
    return time.monotonic_ns() - sent


def main():
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
        shapes=[a.shape for a in arrays],
        dtype_sizes=[spec_text.ITEM_BYTES[a.dtype] for a in arrays],
        batch_size=args.batch_size, transport=TcpTransport(port=0, num_threads=args.threads),
        num_buffers=args.buffers, num_drainers=args.drainers, producer_queue_size=args.queue)
    server.start()
    driver = Driver(server.port)
    samples = 0
    ages = []
    while True:
        batch, _ = server.sample()
        samples += args.batch_size
        if args.ages:
            ages.append(ages_in(batch, args.batch_size))
        if driver.wants_reading():
            more = {"ages": percentiles(np.concatenate(ages)),
                    "youngest": percentiles([of_batch.min() for of_batch in ages])} if ages else {}
            ages = []
            driver.print_reading(samples, **more)


main()
