# SPDX-License-Identifier: Apache-2.0
"""What programs in Python need to be measured by programs.py: driver.hpp and processes.hpp again.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time

import numpy as np
import spec_text


def random_sample(arrays, seed):
    """An array for each of a spec, of bytes that are not 0."""
    random = np.random.default_rng(seed)
    return [random.integers(1, 256, spec_text.payload_bytes([a]), np.uint8)
            .view(a.dtype).reshape(a.shape) for a in arrays]


class Driver:
    """A server's end of the pipe to programs.py."""

    def __init__(self, port):
        print(json.dumps({"port": port}), flush=True)
        self._wanted = False
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        for line in sys.stdin:
            self._wanted = line == "mark\n"
        os._exit(0)  # threads of the server may hang

    def wants_reading(self):
        wanted, self._wanted = self._wanted, False
        return wanted

    @staticmethod
    def print_reading(samples, **more):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        with open("/proc/self/statm") as statm:
            resident = int(statm.read().split()[1]) * resource.getpagesize()
        print(json.dumps({"samples": samples, "seconds": time.monotonic(),
                          "cpu_seconds": usage.ru_utime + usage.ru_stime,
                          "resident_bytes": resident, **more}), flush=True)


def run_load(processes, connections, connect, act):
    """Forks; each child calls `connect(first, count)` for its share of the connections and, once
    all have, `act(what connect returned)`, which must not return."""
    ready, say_ready = os.pipe()
    start, say_start = os.pipe()
    for process in range(processes):
        first = connections * process // processes
        last = connections * (process + 1) // processes
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
            os.close(say_start)
            connected = connect(first, last - first)
            os.write(say_ready, b"1")
            os.read(start, 1)
            act(connected)
            os._exit(1)
    os.close(say_ready)
    for _ in range(processes):
        if not os.read(ready, 1):
            sys.exit("a process of the load failed")
    print("ready", flush=True)
    sys.stdin.readline()
    os.close(say_start)
    sys.stdin.read()
