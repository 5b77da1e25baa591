# SPDX-License-Identifier: Apache-2.0
"""id-echo's client against rondo's server, and rondo's client against id-echo's server."""

import faulthandler
import json
import multiprocessing
import os
import subprocess
import sys
import unittest

import numpy as np
from echo import Server, TcpClient, TcpTransport

RONDO = sys.argv.pop(1)

# Name, tree of an id-echo client, and the same spec as rondo writes it. Dicts are flattened in
# alphabetical order.
SPECS = {
    "tiny": (
        {"obs": np.zeros(4, np.float32), "reward": np.zeros(1, np.float32)},
        "obs:float32[4],reward:float32[1]",
    ),
    "nested": (
        {"a": {"b": np.zeros((2, 3), np.int64), "c": np.zeros((), np.float64)},
         "d": np.zeros(5, np.bool_)},
        "a/b:int64[2,3],a/c:float64[],d:bool[5]",
    ),
    "megabyte": ({"x": np.zeros((512, 512), np.float32)}, "x:float32[512,512]"),
}


def echo_actor(port, tree, actor, samples):
    client = TcpClient("127.0.0.1", port, tree)
    for number in range(samples):
        client.send({key: value_for(leaf, actor * samples + number) for key, leaf in tree.items()})
    client.wait()
    client.close()


def value_for(leaf, number):
    if isinstance(leaf, dict):
        return {key: value_for(below, number) for key, below in leaf.items()}
    return np.full(leaf.shape, number, leaf.dtype)


def summary_of(process):
    out, err = process.communicate(timeout=120)
    if process.returncode != 0:
        raise AssertionError(f"exit code {process.returncode}: {out}{err}")
    return json.loads(out.strip().splitlines()[-1])


class Interop(unittest.TestCase):
    def test_echo_clients_to_a_rondo_server(self):
        for name, (tree, spec) in SPECS.items():
            with self.subTest(name):
                actors, samples, batch = 4, 64, 32
                server = subprocess.Popen(
                    [RONDO, "serve", "--spec", spec, "--batch-size", str(batch), "--batches",
                     str(actors * samples // batch), "--json"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                port = json.loads(server.stdout.readline())["port"]
                context = multiprocessing.get_context("spawn")
                processes = [context.Process(target=echo_actor, args=(port, tree, i, samples))
                             for i in range(actors)]
                for process in processes:
                    process.start()
                for process in processes:
                    process.join(120)
                    self.assertEqual(process.exitcode, 0)
                summary = summary_of(server)
                self.assertEqual(summary["samples"], actors * samples)
                self.assertEqual(summary["batches"], actors * samples // batch)

    def test_a_spec_that_differs_is_refused_by_echo(self):
        server = subprocess.Popen(
            [RONDO, "serve", "--spec", "obs:float32[5]", "--batch-size", "1", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        port = json.loads(server.stdout.readline())["port"]
        with self.assertRaisesRegex(ValueError, "Server spec mismatch"):
            TcpClient("127.0.0.1", port, {"obs": np.zeros(4, np.float32)})
        server.terminate()
        summary_of(server)

    def test_a_rondo_client_to_an_echo_server(self):
        # id-echo acknowledges what it has queued, and loses that when the connection closes (its
        # queue holds 8); and a producer that waits for room may never be woken. So: no more than
        # the ring holds, and one batch less than was sent.
        samples, batch = 96, 32
        for name, (tree, spec) in SPECS.items():
            with self.subTest(name):
                server = Server(tree, batch_size=batch, transport=TcpTransport(port=0))
                server.start()
                load = subprocess.Popen(
                    [RONDO, "load", "--spec", spec, "--connect", f"127.0.0.1:{server.port}",
                     "--samples", str(samples), "--json"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                summary = summary_of(load)
                self.assertEqual(summary["samples"], samples)
                self.assertEqual(summary["unacknowledged"], 0)
                for _ in range(samples // batch - 1):
                    self.assertIsNotNone(server.sample())
                server.close()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(300, exit=True)  # id-echo's waits have no time-out
    # id-echo's server may still have threads of its own: they are no concern of this test.
    program = unittest.main(exit=False)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if program.result.wasSuccessful() else 1)
