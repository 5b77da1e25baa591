# SPDX-License-Identifier: Apache-2.0
"""id-echo's clients for run.py: what `ingest load` is for rondo. Runs in id-echo's environment.

A thread for each connection, as id-echo's clients block. Samples are tuples, which optree flattens
faster than dicts, and in the spec's order.
"""

import argparse
import signal
import threading
import time

import numpy as np
import spec_text
from children import random_sample, run_load
from echo import TcpClient

SOURCES = 8  # as many as the C++ load has

parser = argparse.ArgumentParser()
parser.add_argument("--spec", required=True)
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--connections", type=int, required=True)
parser.add_argument("--processes", type=int, required=True)
parser.add_argument("--in-flight", type=int, required=True)
parser.add_argument("--rate", type=float, default=0)
args = parser.parse_args()

arrays = spec_text.parse(args.spec)


def send_all(client, _, samples):
    while True:
        for sample in samples:
            client.send(sample)


def send_paced(client, index, samples):
    sample = tuple(array.copy() for array in samples[0])
    stamp = sample[0].reshape(-1).view(np.uint8)[:8].view(np.int64)
    interval = args.connections / args.rate
    due = time.monotonic() + interval * index / args.connections
    while True:
        time.sleep(max(0, due - time.monotonic()))
        due += interval
        stamp[0] = time.monotonic_ns()
        client.send(sample)


def connect(first, count):
    samples = [tuple(random_sample(arrays, seed)) for seed in range(SOURCES)]
    clients = [TcpClient("127.0.0.1", args.port, samples[0], args.in_flight)
               for _ in range(count)]
    return list(enumerate(clients, first)), samples


def act(connected):
    clients, samples = connected
    for index, client in clients:
        threading.Thread(target=send_paced if args.rate else send_all,
                         args=(client, index, samples), daemon=True).start()
    signal.pause()


run_load(args.processes, args.connections, connect, act)
