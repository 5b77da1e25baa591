# SPDX-License-Identifier: Apache-2.0
"""The executable `rondo` from outside: `cli_test.py PATH_OF_RONDO [unittest options]`."""

import contextlib
import json
import math
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

RONDO = ""  # set by main
PATIENCE_S = 120  # until a test gives up; nothing is measured against it
SPEC = "obs:float32[16],done:bool[]"
SPEC_BYTES = 16 * 4 + 1


def rondo(*arguments):
    """Runs to the end; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        [RONDO, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def started(*arguments):
    process = subprocess.Popen(
        [RONDO, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.01)
    return result


def children_of(parent):
    """The processes whose parent is `parent`, zombies left out."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                state, its_parent = file.read().rpartition(")")[2].split()[:2]
            if int(its_parent) == parent and state != "Z":
                found.append(int(name))
    return found


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def summary_of(out):
    """The summary, and the check that every line of stdout is a JSON object with an event."""
    events = [json.loads(line) for line in out.splitlines()]
    assert all("event" in event for event in events), out
    assert events[-1]["event"] == "summary", out
    return events[-1]


class EchoServer:
    """A server of echo/1 for one connection, made by hand."""

    def __init__(self, arrays):
        """`arrays`: the item size and the shape of each."""
        self.greeting = b"ECHO" + struct.pack("<BI", 1, len(arrays))
        for item_size, shape in arrays:
            self.greeting += struct.pack(f"<II{len(shape)}I", item_size, len(shape), *shape)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_S)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]

    def accept(self):
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_S)
        connection.sendall(self.greeting)
        return connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


SPEC_ARRAYS = [(4, (16,)), (1, ())]


class General(unittest.TestCase):
    def test_version_is_one_line(self):
        code, out, _ = rondo("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^rondo \d+\.\d+\.\d+\n$")

    def test_help_tells_commands_and_exit_codes_but_nothing_that_is_for_tests(self):
        code, out, _ = rondo("--help")
        self.assertEqual(code, 0)
        for text in ("demo", "serve", "load", "doctor", "Exit codes", "130"):
            self.assertIn(text, out)
        self.assertNotIn("demo-actor", out)
        code, out, _ = rondo("demo", "--help")
        self.assertEqual(code, 0)
        self.assertIn("--batch-size", out)
        self.assertIn("Exit codes", out)
        self.assertNotIn("corrupt", out)

    def test_wrong_usage_exits_2_and_says_why(self):
        serve = ("serve", "--batch-size", 4, "--spec", SPEC)
        load = ("load", "--spec", SPEC, "--connect")
        for arguments, why in (
            ((), "a command is required"),
            (("frobnicate",), "frobnicate"),
            (("serve", "--batch-size", 4), "--spec is required"),
            (("serve", "--batch-size", 4, "--spec", "obs:floaty[4]"), 'found "floaty"'),
            (("serve", "--batch-size", 4, "--spec", ""), "rondo: "),
            (("serve", "--batch-size", 0, "--spec", SPEC), "--batch-size"),
            (("serve", "--batch-size", -1, "--spec", SPEC), "--batch-size"),
            ((*serve, "--buffers", 0), "--buffers"),
            ((*serve, "--protocol", "http"), "http"),
            ((*serve, "--address", "no address"), "no address"),
            ((*serve, "--port", 65536), "--port"),
            ((*serve, "--io-threads", 1000), "--io-threads"),
            ((*serve, "--port", -1), "expected a number from 0 to 65535, got '-1'"),
            ((*serve, "--frob"), "--frob"),
            ((*load, "learner"), "'learner' has no port"),
            ((*load, "::1:80"), "needs brackets"),
            ((*load, "127.0.0.1:80", "--actors", 0), "--actors"),
            (("load", "--connect", "127.0.0.1:80", "--spec", "obs"), "rondo: "),
            (("demo", "--actors", 0), "--actors"),
            (("demo", "--samples", 0), "--samples"),
            (("demo", "--batch-size", 0), "--batch-size"),
            (("demo", "--seed", -1), "--seed"),
        ):
            with self.subTest(arguments=arguments):
                code, out, err = rondo(*arguments)
                self.assertEqual(code, 2, err)
                self.assertIn(why, err)
                self.assertEqual(out, "")

    def test_a_port_in_use_exits_1_and_names_it(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            for arguments in (("serve", "--spec", SPEC, "--batch-size", 4), ("demo",)):
                with self.subTest(command=arguments[0]):
                    code, out, err = rondo(*arguments, "--port", port)
                    self.assertEqual(code, 1)
                    self.assertIn(f"cannot listen on 127.0.0.1:{port}: ", err)
                    self.assertEqual(out, "")


class Demo(unittest.TestCase):
    def test_contents_are_ok_also_when_the_last_batch_is_short(self):
        code, out, err = rondo("demo", "--actors", 3, "--samples", 1001, "--batch-size", 32)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("3,003 samples in 94 batches", out)
        self.assertRegex(out, r"from send to lease: p50 [\d.]+ (ns|us|ms|s), p99 [\d.]+ ")
        self.assertEqual(out.splitlines()[-1], "contents ok")

    def test_batches_of_one_and_a_ring_of_one_buffer_work(self):
        code, out, _ = rondo(
            "demo", "--actors", 2, "--samples", 200, "--batch-size", 1, "--buffers", 1
        )
        self.assertEqual(code, 0, out)
        self.assertIn("400 samples in 400 batches", out)

    def test_json_is_one_object_and_its_numbers_agree(self):
        code, out, _ = rondo("demo", "--samples", 500, "--batch-size", 100, "--json")
        self.assertEqual(code, 0, out)
        self.assertEqual(out.count("\n"), 1)
        summary = summary_of(out)
        self.assertEqual(summary["contents"], "ok")
        self.assertEqual(summary["problems"], [])
        self.assertEqual(summary["actors"], 4)
        self.assertEqual(summary["samples"], 2000)
        self.assertEqual(summary["batches"], 20)
        self.assertGreater(summary["episodes"], 0)
        self.assertLessEqual(summary["send_to_lease_p50_us"], summary["send_to_lease_p99_us"])
        self.assertAlmostEqual(
            summary["megabytes_per_second"],
            summary["samples_per_second"] * summary["payload_bytes"] / 1e6,
            places=3,
        )

    def test_what_an_actor_does_wrong_is_found(self):
        for wrong, sentence in (
            ("--corrupt", r"actor 0, sample 123: its checksum is 0x[0-9a-f]{16}, its bytes give"),
            ("--skip", r"actor 0, sample 124 came where 123 was due: 1 sample missing"),
            ("--duplicate", r"actor 0, sample 123 came twice or late: 124 was due"),
            ("--cheat", r"actor 0, sample 123: its next_obs does not follow from obs and action"),
        ):
            with self.subTest(wrong=wrong):
                code, out, _ = rondo("demo", "--samples", 500, wrong, 123)
                self.assertEqual(code, 1)
                self.assertRegex(out, "contents WRONG: " + sentence)
                self.assertNotIn("contents ok", out)
                code, out, _ = rondo("demo", "--samples", 500, wrong, 123, "--json")
                self.assertEqual(code, 1)
                summary = summary_of(out)
                self.assertEqual(summary["contents"], "wrong")
                self.assertGreaterEqual(summary["problem_count"], 1)
                self.assertRegex(summary["problems"][0], sentence)

    def test_a_killed_actor_makes_it_fail(self):
        with started("demo", "--actors", 3, "--samples", 10**9) as demo:
            actors = wait_until(
                lambda: len(found := children_of(demo.pid)) == 3 and found, "three actors run"
            )
            demo.stdout.readline()
            demo.stdout.readline()  # the first line of progress: they send
            os.kill(actors[1], signal.SIGKILL)
            code, out, _ = finish(demo)
            self.assertEqual(code, 1)
            self.assertRegex(
                out,
                r"contents WRONG: actor \d was killed by signal 9 \(Killed\) after [\d,]+ of its "
                r"1,000,000,000 samples",
            )
            self.assertEqual([pid for pid in actors if is_alive(pid)], [])

    def test_an_actor_that_is_stopped_and_goes_on_loses_nothing(self):
        with started("demo", "--actors", 2, "--samples", 20_000) as demo:
            for pid in wait_until(lambda: children_of(demo.pid), "an actor runs"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.1)
                    os.kill(pid, signal.SIGCONT)
            code, out, _ = finish(demo)
            self.assertEqual(code, 0, out)

    def test_actors_end_with_the_demo(self):
        with started("demo", "--actors", 3, "--samples", 10**9) as demo:
            actors = wait_until(
                lambda: len(found := children_of(demo.pid)) == 3 and found, "three actors run"
            )
            demo.kill()
            demo.wait(PATIENCE_S)
            for pid in actors:
                wait_until(lambda pid=pid: not is_alive(pid), f"actor {pid} ended")

    def test_ctrl_c_ends_it_early_and_well(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                with started("demo", "--samples", 10**9) as demo:
                    demo.stdout.readline()
                    demo.stdout.readline()
                    demo.send_signal(number)
                    code, out, err = finish(demo)
                    self.assertEqual((code, err), (0, ""), out)
                    last = out.splitlines()[-1]
                    self.assertEqual(last, "stopped early: the samples that came are ok")

    def test_progress_is_rewritten_on_a_terminal_and_leaves_no_trace(self):
        ours, theirs = pty.openpty()
        try:
            with subprocess.Popen(
                [RONDO, "demo", "--samples", "1000000000"], stdout=theirs, stderr=theirs
            ) as demo:
                os.close(theirs)
                text = b""
                while text.count(b"\r\x1b[K") < 3:
                    text += os.read(ours, 4096)
                demo.send_signal(signal.SIGINT)
                with contextlib.suppress(OSError):  # nobody writes any more
                    while chunk := os.read(ours, 4096):
                        text += chunk
                self.assertEqual(demo.wait(PATIENCE_S), 0)
        finally:
            os.close(ours)
        shown = [line.rpartition(b"\x1b[K")[2] for line in text.split(b"\n")]
        self.assertRegex(shown[1], rb"^[\d,]+ samples in [\d,]+ batches")

    def test_progress_goes_to_stderr_with_json(self):
        with started("demo", "--samples", 10**9, "--json") as demo:
            self.assertRegex(demo.stderr.readline(), r"^[\d,]+ of 4,000,000,000 samples, ")
            demo.send_signal(signal.SIGINT)
            code, out, _ = finish(demo)
            self.assertEqual(code, 0)
            summary = summary_of(out)
            self.assertTrue(summary["interrupted"])
            self.assertEqual(summary["contents"], "incomplete")


def cartpole_step(state, action):
    """The published dynamics, once more and in another language."""
    x, x_dot, theta, theta_dot = state
    force = 10.0 if action else -10.0
    sine, cosine = math.sin(theta), math.cos(theta)
    temp = (force + 0.1 * 0.5 * theta_dot**2 * sine) / 1.1
    theta_acc = (9.8 * sine - cosine * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
    x_acc = temp - 0.1 * 0.5 * theta_acc * cosine / 1.1
    return (
        x + 0.02 * x_dot,
        x_dot + 0.02 * x_acc,
        theta + 0.02 * theta_dot,
        theta_dot + 0.02 * theta_acc,
    )


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class Actor(unittest.TestCase):
    """An actor of the demo against a server that shares no code with it."""

    ARRAYS = [(4, ()), (8, ()), (8, ()), (8, (4,)), (1, ()), (4, ()), (8, (4,))]
    ARRAYS += [(1, ()), (1, ()), (8, ())]
    SAMPLE = struct.Struct("=IQq4dBf4d??Q")

    def play(self, samples, *arguments):
        """What the actor sends, each sample unpacked."""
        with EchoServer(self.ARRAYS) as server, started(
            "demo-actor", "--connect", server.address, "--samples", samples, *arguments
        ) as actor:
            with server.accept() as connection:
                data = b""
                while len(data) < samples * self.SAMPLE.size:
                    chunk = connection.recv(1 << 16)
                    self.assertTrue(chunk, "the actor left early")
                    before = len(data) // self.SAMPLE.size
                    data += chunk
                    connection.sendall(b"\x01" * (len(data) // self.SAMPLE.size - before))
                code, _, err = finish(actor)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(connection.recv(1), b"")
        return [data[i : i + self.SAMPLE.size] for i in range(0, len(data), self.SAMPLE.size)]

    def test_it_plays_the_published_game_and_numbers_its_samples(self):
        state, steps, episodes = None, 0, 0
        for index, data in enumerate(self.play(1200, "--id", 7, "--seed", 3)):
            fields = self.SAMPLE.unpack(data)
            actor, sequence, sent_at = fields[:3]
            obs, action, reward, next_obs = fields[3:7], fields[7], fields[8], fields[9:13]
            terminated, truncated, checksum = fields[13:]
            self.assertEqual((actor, sequence), (7, index))
            self.assertLessEqual(sent_at, time.monotonic_ns())
            self.assertEqual(checksum, fnv1a(data[:-8]))
            self.assertEqual(reward, 1.0)
            if state is None:
                self.assertLessEqual(max(map(abs, obs)), 0.05)
            else:
                self.assertEqual(obs, state)
            for ours, theirs in zip(cartpole_step(obs, action), next_obs):
                self.assertAlmostEqual(ours, theirs, delta=1e-12)
            failed = abs(next_obs[0]) > 2.4 or abs(next_obs[2]) > 12 * math.pi / 180
            steps += 1
            self.assertEqual(terminated, failed)
            self.assertEqual(truncated, steps == 500 and not failed)
            state = None if terminated or truncated else next_obs
            if state is None:
                steps, episodes = 0, episodes + 1
        self.assertGreater(episodes, 1)

    def test_a_seed_decides_the_game(self):
        def game(seed):
            # All but the time at which it was sent, and the checksum over that.
            return [data[:12] + data[20:-8] for data in self.play(200, "--seed", seed)]

        first = game(5)
        self.assertEqual(first, game(5))
        self.assertNotEqual(first, game(6))

    def test_a_lost_connection_exits_1(self):
        with EchoServer(self.ARRAYS) as server, started(
            "demo-actor", "--connect", server.address, "--samples", 10**9
        ) as actor:
            with server.accept() as connection:
                connection.recv(self.SAMPLE.size)
            code, _, err = finish(actor)
            self.assertEqual(code, 1)
            self.assertIn("rondo: actor 0: ", err)
            self.assertIn("not acknowledged", err)

    def test_a_server_with_another_spec_exits_1(self):
        with EchoServer(SPEC_ARRAYS) as server, started(
            "demo-actor", "--connect", server.address
        ) as actor:
            with server.accept():
                code, _, err = finish(actor)
            self.assertEqual(code, 1)
            self.assertIn("actor 0: ", err)


@contextlib.contextmanager
def serving(*arguments, spec=SPEC, batch_size=50):
    """A server with --json, and the HOST:PORT where it listens."""
    with started(
        "serve", "--spec", spec, "--batch-size", batch_size, "--json", *arguments
    ) as process:
        event = json.loads(process.stdout.readline())
        assert event["event"] == "listening", event
        host = "[%s]" % event["address"] if ":" in event["address"] else event["address"]
        yield process, "%s:%d" % (host, event["port"])


def load_arguments(where, *arguments):
    return ("load", "--spec", SPEC, "--connect", where, "--json", *arguments)


class ServeAndLoad(unittest.TestCase):
    def check_numbers(self, serve, load, samples):
        self.assertEqual(load["samples"], samples)
        self.assertEqual(serve["samples"], samples)
        self.assertEqual(load["unacknowledged"], 0)
        self.assertEqual(load["connections_failed"] + load["connections_lost"], 0)
        self.assertEqual(serve["truncated_samples"], 0)
        self.assertEqual(serve["samples_dropped_at_close"], 0)
        self.assertEqual(serve["payload_bytes"], SPEC_BYTES)
        self.assertEqual(load["payload_bytes"], SPEC_BYTES)
        self.assertFalse(serve["interrupted"])

    def test_what_load_sends_is_what_serve_gets(self):
        with serving("--batches", 80) as (server, where):
            code, out, err = rondo(*load_arguments(where, "--actors", 4, "--samples", 1000))
            self.assertEqual(code, 0, err)
            load = summary_of(out)
            code, out, err = finish(server)
            self.assertEqual(code, 0, err)
            serve = summary_of(out)
        self.check_numbers(serve, load, 4000)
        self.assertEqual(serve["batches"], 80)
        self.assertEqual(serve["connections"], 4)

    def test_serve_accounts_for_what_came_beyond_the_last_batch(self):
        with serving("--batches", 3) as (server, where):
            code, out, err = rondo(*load_arguments(where, "--actors", 2))
            self.assertEqual(code, 1, err)
            load = summary_of(out)
            code, out, err = finish(server)
            self.assertEqual(code, 0, err)
        serve = summary_of(out)
        self.assertEqual((serve["samples"], serve["batches"]), (150, 3))
        self.assertEqual(
            load["samples"], 150 + serve["samples_not_taken"] + serve["samples_dropped_at_close"]
        )

    def test_every_number_of_io_threads_and_a_narrow_window_do(self):
        for threads in (1, 2, 4):
            with self.subTest(threads=threads):
                with serving("--batches", 20, "--io-threads", threads) as (server, where):
                    code, out, err = rondo(
                        *load_arguments(where, "--actors", 5, "--samples", 200, "--window", 1)
                    )
                    self.assertEqual(code, 0, err)
                    load = summary_of(out)
                    code, out, err = finish(server)
                    self.assertEqual(code, 0, err)
                self.check_numbers(summary_of(out), load, 1000)

    def test_a_thousand_connections_do(self):
        with serving("--batches", 100, batch_size=100) as (server, where):
            code, out, err = rondo(*load_arguments(where, "--actors", 1000, "--samples", 10))
            self.assertEqual(code, 0, err)
            load = summary_of(out)
            code, out, err = finish(server)
            self.assertEqual(code, 0, err)
        serve = summary_of(out)
        self.check_numbers(serve, load, 10_000)
        self.assertEqual(serve["connections"], 1000)

    def test_ipv6_does(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        with serving("--batches", 2, "--address", "::1") as (server, where):
            self.assertRegex(where, r"^\[::1\]:\d+$")
            code, _, err = rondo(*load_arguments(where, "--samples", 100))
            self.assertEqual(code, 0, err)
            self.assertEqual(finish(server)[0], 0)

    def test_the_text_forms_say_the_same(self):
        with started("serve", "--spec", SPEC, "--batch-size", 10, "--batches", 3) as server:
            listening = re.fullmatch(
                r"listening on (127\.0\.0\.1:\d+)\n", server.stdout.readline()
            )
            code, out, _ = rondo(
                "load", "--spec", SPEC, "--connect", listening[1], "--samples", 30
            )
            self.assertEqual(code, 0)
            self.assertIn("30 samples acknowledged, 0 not, over 1 connection", out)
            code, out, _ = finish(server)
            self.assertEqual(code, 0)
            self.assertIn("30 samples in 3 batches from 1 connection", out)

    def test_ctrl_c_drains_a_server_under_load_and_no_acknowledged_sample_is_lost(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number), serving() as (server, where):
                with started(*load_arguments(where, "--actors", 3)) as load:
                    load.stderr.readline()  # a line of progress: it sends
                    server.send_signal(number)
                    code, out, err = finish(server)
                    self.assertEqual(code, 0, err)
                    serve = summary_of(out)
                    self.assertTrue(serve["interrupted"])
                    self.assertGreater(serve["batches"], 0)
                    code, out, err = finish(load)
                    self.assertEqual(code, 1)
                    self.assertIn("ended before everything was acknowledged", err)
                    self.assertEqual(
                        summary_of(out)["samples"],
                        serve["samples"] + serve["samples_dropped_at_close"],
                    )

    def test_ctrl_c_ends_load_once_everything_is_acknowledged(self):
        with serving() as (server, where):
            with started(*load_arguments(where, "--actors", 3)) as load:
                load.stderr.readline()
                load.send_signal(signal.SIGINT)
                code, out, err = finish(load)
                self.assertEqual(code, 0, err)
                summary = summary_of(out)
                self.assertTrue(summary["interrupted"])
                self.assertGreater(summary["samples"], 0)
            server.send_signal(signal.SIGINT)
            code, out, err = finish(server)
            self.assertEqual(code, 0, err)
            serve = summary_of(out)
            self.assertEqual(
                summary["samples"], serve["samples"] + serve["samples_dropped_at_close"]
            )

    def test_a_server_that_waits_for_nothing_ends_at_ctrl_c(self):
        with serving() as (server, _):
            server.send_signal(signal.SIGINT)
            code, out, err = finish(server)
            self.assertEqual(code, 0, err)
            self.assertEqual(summary_of(out)["samples"], 0)

    def test_a_second_ctrl_c_ends_load_at_once(self):
        with EchoServer(SPEC_ARRAYS) as server:
            with started(*load_arguments(server.address)) as load, server.accept():
                load.stderr.readline()
                load.send_signal(signal.SIGINT)
                # Signals do not queue: once more until the first has been seen, then it ends.
                wait_until(
                    lambda: load.poll() is not None or load.send_signal(signal.SIGINT),
                    "load ended",
                )
                code, out, _ = finish(load)
                self.assertEqual((code, out), (130, ""))

    def test_a_server_that_dies_leaves_load_with_samples_unacknowledged(self):
        with serving() as (server, where):
            with started(*load_arguments(where, "--actors", 3)) as load:
                load.stderr.readline()
                server.send_signal(signal.SIGSTOP)
                time.sleep(0.2)  # what is sent from now on is not acknowledged
                server.kill()
                code, out, err = finish(load)
                self.assertEqual(code, 1)
                self.assertIn("3 of 3 connections ended before everything was acknowledged", err)
                summary = summary_of(out)
                self.assertGreater(summary["unacknowledged"], 0)
                self.assertEqual(summary["connections_lost"], 3)

    def test_load_counts_what_a_server_left_without_acknowledgement(self):
        with EchoServer(SPEC_ARRAYS) as server:
            with started(*load_arguments(server.address, "--samples", 20)) as load:
                with server.accept() as connection:
                    got = 0
                    while got < 20 * SPEC_BYTES:
                        got += len(connection.recv(1 << 16))
                    connection.sendall(b"\x01" * 13)
                code, out, _ = finish(load)
        self.assertEqual(code, 1)
        summary = summary_of(out)
        self.assertEqual((summary["samples"], summary["unacknowledged"]), (13, 7))

    def test_load_sends_no_byte_that_is_zero(self):
        with EchoServer(SPEC_ARRAYS) as server:
            with started(*load_arguments(server.address, "--samples", 3)) as load:
                with server.accept() as connection:
                    data = b""
                    while len(data) < 3 * SPEC_BYTES:
                        data += connection.recv(1 << 16)
                    connection.sendall(b"\x01" * 3)
                    self.assertEqual(finish(load)[0], 0)
        self.assertNotIn(0, data)
        self.assertEqual(data[SPEC_BYTES - 1], 1, "a bool is 1")
        self.assertEqual(data, data[:SPEC_BYTES] * 3)

    def test_nobody_there_exits_1(self):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            where = "127.0.0.1:%d" % gone.getsockname()[1]
        code, out, err = rondo(*load_arguments(where, "--actors", 2, "--samples", 1))
        self.assertEqual(code, 1)
        self.assertIn("2 of 2 connections could not be made", err)
        self.assertEqual(summary_of(out)["connections_failed"], 2)

    def test_another_spec_exits_1_and_shows_the_difference(self):
        with serving(spec="obs:float32[17],done:bool[]") as (_, where):
            code, _, err = rondo(*load_arguments(where, "--samples", 1))
            self.assertEqual(code, 1)
            self.assertIn("17", err)
            self.assertIn("16", err)


def main():
    global RONDO
    RONDO = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
