# SPDX-License-Identifier: Apache-2.0
"""The processes that are measured: started on their cores, asked for readings, killed."""

import json
import os
import pathlib
import select
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ANSWER_SECONDS = 10  # a program that takes longer for a line hangs


class Hung(Exception):
    """A program did not answer in time, or ended; with what it wrote to stderr."""


class Program:
    """A program that answers lines with lines. Used in a `with`, whose end kills it."""

    def __init__(self, command, cores):
        self.errors = tempfile.TemporaryFile()
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)  # a child inherits it, with all of its threads
        try:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.errors,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"})
        finally:
            os.sched_setaffinity(0, before)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def hung(self):
        self.errors.seek(0)
        return Hung(f"{self.process.args[1]}: {self.errors.read().decode(errors='replace')}")

    def say(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.hung() from None

    def hear(self, timeout):
        """The next line; the programs write whole lines only."""
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise self.hung()
        return line.decode()

    def reading(self, timeout):
        self.say("mark")
        return json.loads(self.hear(timeout))


def measure(server_command, load_command, cores, times):
    """Starts a server and, once it says its port, a load; waits until all are connected; then reads
    the server's counters at the begin and the end of a window in the steady state.

    A fixed time, not a fixed number of samples: the rates of the variants differ by a factor of
    100, and a number would bring in the end of a run, where some connections have finished.
    """
    warm_up, window = times
    server_cores, load_cores = cores
    with Program(server_command, server_cores) as server:
        port = json.loads(server.hear(ANSWER_SECONDS))["port"]
        with Program(load_command + ["--port", port], load_cores) as load:
            load.hear(ANSWER_SECONDS)
            load.say("go")
            time.sleep(warm_up)
            begin = server.reading(ANSWER_SECONDS)
            time.sleep(window)
            end = server.reading(ANSWER_SECONDS)
            if load.process.poll() is not None:
                raise load.hung()
    samples = end["samples"] - begin["samples"]
    seconds = end["seconds"] - begin["seconds"]
    result = {
        "samples_per_second": samples / seconds,
        "cpu_ns_per_sample": 1e9 * (end["cpu_seconds"] - begin["cpu_seconds"]) / samples,
        "server_cores_busy": (end["cpu_seconds"] - begin["cpu_seconds"]) / seconds,
        "resident_bytes": end["resident_bytes"],
    }
    for kind in ("ages", "youngest"):
        if kind in end:
            result[kind] = end[kind]
    return result
