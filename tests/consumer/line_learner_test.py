#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the transport of docs/transports.md, built against an installed rondo, as a process with a
real standard input: it starts, stops, pushes back and shuts down as TCP does.

    line_learner_test.py PROGRAM
"""

import fcntl
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
PATIENCE = 120  # seconds; no healthy run needs them
F_SETPIPE_SZ = 1031
BATCH = 4  # samples in a batch of the program
RING = 3 * BATCH


def lines(first, count):
    return "".join(f"{n} {n} {n % 1000}\n" for n in range(first, first + count)).encode()


def batches(first, count):
    """What the learner prints of these samples."""
    out = []
    for start in range(first, first + count, BATCH):
        samples = range(start, min(start + BATCH, first + count))
        mean = sum(n % 1000 for n in samples) / len(samples)
        out.append(f"{len(samples)} samples, mean reward {mean:g}")
    return out


def start(*arguments, stdin=subprocess.PIPE):
    return subprocess.Popen([PROGRAM, *arguments], stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def threads(process):
    """For each thread: whether it sleeps, and how often it has been switched away from."""
    found = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        status = (task / "status").read_text().splitlines()
        fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
        found[task.name] = (fields["State"][0] == "S", fields["voluntary_ctxt_switches"],
                            fields["nonvoluntary_ctxt_switches"])  # fmt: skip
    return found


def stands_still(process):
    """True if all threads sleep and none has run between two looks: so all slept at one moment."""
    before = threads(process)
    return all(sleeps for sleeps, *_ in before.values()) and threads(process) == before


def is_full(pipe):
    return not select.select([], [pipe], [], 0)[1]


class LineLearner(unittest.TestCase):
    def finish(self, process, data=None):
        out, err = process.communicate(data, timeout=PATIENCE)
        return process.returncode, out.decode().splitlines(), err.decode()

    def test_every_line_is_a_sample_in_order(self):
        code, out, err = self.finish(start(), lines(0, 1000))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, batches(0, 1000))

    def test_a_file_is_an_input_too(self):
        with tempfile.TemporaryFile() as file:
            file.write(lines(0, 50_000))
            file.seek(0)
            code, out, err = self.finish(start(stdin=file))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, batches(0, 50_000))

    def test_an_empty_input_ends_at_once(self):
        self.assertEqual(self.finish(start(), b""), (0, [], ""))

    def test_a_line_may_come_in_pieces(self):
        process = start()
        for byte in lines(7, 4):
            process.stdin.write(bytes([byte]))
            process.stdin.flush()
        self.assertEqual(process.stdout.readline().decode().strip(), batches(7, 4)[0])
        self.assertEqual(self.finish(process), (0, [], ""))

    def test_a_line_that_is_no_sample_is_reported_and_dropped(self):
        code, out, err = self.finish(start(), lines(0, 2) + b"1 2\n1 2 x\n" + lines(2, 2))
        self.assertEqual((code, out), (0, batches(0, 4)))
        self.assertEqual(err.splitlines(), [
            'line 3: expected 3 numbers, got "1 2"; it is dropped',
            'line 4: expected 3 numbers, got "1 2 x"; it is dropped',
        ])  # fmt: skip

    def test_a_peer_that_leaves_within_a_sample_harms_nobody(self):
        code, out, err = self.finish(start(), lines(0, 5) + b"1 2")
        self.assertEqual((code, out), (0, batches(0, 5)))
        self.assertEqual(err, "the input ends within a line, which is dropped\n")

    def stall(self, process):
        """Lets the learner stall, for nobody reads what it prints, and writes until everything
        stands still; returns how many samples went out, the last one perhaps in part."""
        fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        fcntl.fcntl(process.stdin, F_SETPIPE_SZ, 4096)
        os.set_blocking(process.stdin.fileno(), False)
        data = lines(0, 200_000)
        sent = 0

        def step():
            nonlocal sent
            while not is_full(process.stdin):
                sent += os.write(process.stdin.fileno(), data[sent : sent + 4096])
            return stands_still(process) and is_full(process.stdin)

        self.assertTrue(eventually(step))
        os.set_blocking(process.stdin.fileno(), True)
        self.assertLess(sent, len(data) / 2)
        return data, sent

    def test_a_learner_that_stalls_stops_the_writer_and_loses_nothing(self):
        process = start()
        data, sent = self.stall(process)
        whole = data[:sent].count(b"\n")
        rest = lines(whole, 1000)[sent - len(data[:sent].rpartition(b"\n")[0]) - 1 :]
        code, out, err = self.finish(process, rest)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, batches(0, whole + 1000))

    def test_a_signal_ends_the_wait_for_input(self):
        process = start()
        process.stdin.write(lines(0, 5))
        process.stdin.flush()
        first = process.stdout.readline().decode().strip()
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        # The fifth sample may have been read, or not; the input is still open.
        rest = process.stdout.read().decode().splitlines()
        self.assertEqual(first, batches(0, 4)[0])
        self.assertIn(rest, ([], batches(4, 1)))
        self.assertEqual(process.returncode, 0)
        self.close(process)

    def test_a_server_that_closes_ends_the_wait_for_room(self):
        process = start("2")
        fcntl.fcntl(process.stdin, F_SETPIPE_SZ, 4096)
        with self.assertRaises(BrokenPipeError):  # its transport reads no more, and it ends
            for _ in range(100):
                process.stdin.write(lines(0, 10_000))
        out = process.stdout.read().decode().splitlines()
        self.assertEqual(out, batches(0, 2 * BATCH))
        self.assertEqual(process.wait(PATIENCE), 0)
        self.close(process)

    def close(self, process):
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.stdout.close()
        process.stderr.close()


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
