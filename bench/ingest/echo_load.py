# SPDX-License-Identifier: Apache-2.0
"""id-echo's clients for run.py: what `ingest load` is for rondo. Runs in id-echo's environment.

A thread for each connection, as id-echo's clients block. Samples are tuples, which optree flattens
faster than dicts, and in the spec's order.
"""

import argparse
import ctypes
import os
import signal
import sys
import threading
import time

import numpy as np
import spec_text
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


def random_sample(seed):
    random = np.random.default_rng(seed)
    return tuple(random.integers(1, 256, spec_text.payload_bytes([a]), np.uint8)
                 .view(a.dtype).reshape(a.shape) for a in arrays)


def send_all(client, samples):
    while True:
        for sample in samples:
            client.send(sample)


def send_paced(client, index):
    sample = random_sample(index)
    stamp = sample[0].reshape(-1).view(np.uint8)[:8].view(np.int64)
    interval = args.connections / args.rate
    due = time.monotonic() + interval * index / args.connections
    while True:
        time.sleep(max(0, due - time.monotonic()))
        due += interval
        stamp[0] = time.monotonic_ns()
        client.send(sample)


def act(first, connections, ready, start):
    samples = [random_sample(seed) for seed in range(SOURCES)]
    clients = [TcpClient("127.0.0.1", args.port, samples[0], args.in_flight)
               for _ in range(connections)]
    os.write(ready, b"1")
    os.read(start, 1)
    for index, client in enumerate(clients, first):
        work = (send_paced, client, index) if args.rate else (send_all, client, samples)
        threading.Thread(target=work[0], args=work[1:], daemon=True).start()
    signal.pause()


ready, say_ready = os.pipe()
start, say_start = os.pipe()
for process in range(args.processes):
    first = args.connections * process // args.processes
    last = args.connections * (process + 1) // args.processes
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
        os.close(say_start)
        act(first, last - first, say_ready, start)
os.close(say_ready)
for _ in range(args.processes):
    if not os.read(ready, 1):
        sys.exit("a process of the load failed")
print("ready", flush=True)
sys.stdin.readline()
os.close(say_start)
sys.stdin.read()
