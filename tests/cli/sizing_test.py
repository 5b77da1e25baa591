#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the table of docs/sizing.md with its formulas, and with the memory of real processes.

    sizing_test.py PROGRAM ROOT

What is measured is how much a process's peak grows beyond that of the same program with next to
nothing to do. The tolerance is 512 KiB: the heap grows in steps of 132 KiB for each of its arenas
(one per thread), and with more work a few more pages of code are touched.
"""

import math
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest
from dataclasses import dataclass

PROGRAM = ""
ROOT = pathlib.Path()
PATIENCE = 120  # seconds; no healthy run needs them
KIB = 1024
TOLERANCE = 512  # KiB
SMALL = 8 * KIB  # bytes of a sample that goes through buffers
SIDE_BUFFERS = 64 << 10  # KiB


@dataclass
class Row:
    actors: int
    window: int
    sample: int
    batch: int
    buffers: int
    ring: int
    rest: int
    actor: int
    kernels: int

    @property
    def spec(self):
        return f"x:uint8[{self.sample}]"


def table():
    text = (ROOT / "docs/sizing.md").read_text()
    rows = re.search(r"^\| actors \|.*\n\|[-|]*\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [Row(*(int(cell.replace(",", "")) for cell in row.split("|")[1:-1]))
            for row in rows.splitlines()]  # fmt: skip


def peak(process):
    """Of the resident memory, in KiB."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1])


def queued(port):
    """Bytes in the kernel's buffers of all connections of this port, both ends."""
    total = 0
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(fields[i].split(":")[1], 16) for i in (1, 2)]
        if port in ports and fields[3] == "01":  # established
            total += sum(int(queue, 16) for queue in fields[4].split(":"))
    return total


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


class Processes:
    """A server and a process with all actors, at work."""

    def __init__(self, row):
        self.server = self.start("serve", "--spec", row.spec, "--batch-size", row.batch,
                                 "--buffers", row.buffers, "--io-threads", 1)  # fmt: skip
        where = self.server.stdout.readline().split()[-1]
        self.port = int(where.rsplit(":", 1)[1])
        self.load = self.start("load", "--spec", row.spec, "--connect", where,
                               "--actors", row.actors, "--window", row.window)  # fmt: skip

    def start(self, *arguments):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)  # fmt: skip

    def wait_until_taken(self, samples):
        """Reads the server's progress, a line each second."""
        for line in self.server.stdout:
            if int(line.split()[0].replace(",", "")) >= samples:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.load, self.server):
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()


class Sizing(unittest.TestCase):
    def test_the_numbers_of_the_table_follow_from_the_formulas(self):
        for row in table():
            with self.subTest(row):
                sample = row.sample / KIB
                small = row.sample <= SMALL
                parts = row.actors * sample if small else min(row.actors * sample, SIDE_BUFFERS)
                self.assertEqual(row.ring, round(row.batch * row.buffers * sample))
                self.assertEqual(row.rest, math.ceil(256 + 4 * row.actors + parts))
                self.assertEqual(row.actor, math.ceil(12 + sample + (64 if small else 0)))
                self.assertEqual(row.kernels, math.ceil(row.window * sample))

    def test_processes_are_as_large_as_the_table_says(self):
        with Processes(Row(1, 1, 1, 1, 1, 0, 0, 0, 0)) as idle:
            idle.wait_until_taken(1)
            server, load = peak(idle.server), peak(idle.load)
        for row in table():
            with self.subTest(row), Processes(row) as at_work:
                at_work.wait_until_taken(2 * row.batch * row.buffers)
                grown = peak(at_work.server) - server
                self.assertGreaterEqual(grown, row.ring - TOLERANCE)
                self.assertLessEqual(grown, row.ring + row.rest + TOLERANCE)
                # The actors of `load` share one sample; each process of yours has its own.
                shared = round((row.actors - 1) * row.sample / KIB)
                actors = peak(at_work.load) - load
                self.assertLessEqual(actors, row.actors * row.actor - shared + TOLERANCE)

    def test_the_window_bounds_what_lies_in_the_kernels(self):
        for row in table():
            with self.subTest(row), Processes(row) as at_work:
                at_work.wait_until_taken(row.batch)
                at_work.server.send_signal(signal.SIGSTOP)  # takes nothing, acknowledges nothing
                most = row.actors * row.kernels * KIB
                # Much of the windows, or what a kernel short of memory still holds. At first bytes
                # may count twice, on their way from one end to the other.
                least = row.actors * min(row.kernels * KIB // 2, 64 * KIB)
                self.assertTrue(eventually(lambda: least <= queued(at_work.port) <= most))


if __name__ == "__main__":
    PROGRAM, ROOT = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
    unittest.main()
