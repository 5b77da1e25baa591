# SPDX-License-Identifier: Apache-2.0
"""Other processes, and the end of this one."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import numbered

import rondo

ACTORS, SAMPLES = 4, 50


def act(port, actor):
    example = {"actor": np.zeros((), np.int32), "number": np.zeros((), np.int32)}
    with rondo.TcpClient("127.0.0.1", port, example) as client:
        for number in range(SAMPLES):
            client.send({"actor": np.int32(actor), "number": np.int32(number)})
        client.wait()


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_actors_are_processes_of_any_kind(make_server, method):
    example = {"actor": np.zeros((), np.int32), "number": np.zeros((), np.int32)}
    server = make_server(example, 10)
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=act, args=(server.port, i)) for i in range(ACTORS)]
    for process in processes:
        process.start()
    seen = {actor: [] for actor in range(ACTORS)}
    for _ in range(ACTORS * SAMPLES // 10):
        batch = server.sample(timeout=60).batch
        for actor, number in zip(batch["actor"].tolist(), batch["number"].tolist()):
            seen[actor].append(number)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert all(numbers == list(range(SAMPLES)) for numbers in seen.values())


def in_child(check):
    """Runs `check` in a forked child that ends as Python programs do, and expects no complaint."""
    pid = os.fork()
    if pid == 0:
        try:
            check()
            code = 0
        except BaseException:  # noqa: B036
            sys.excepthook(*sys.exc_info())
            code = 1
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_forked_child_is_refused_with_a_sentence(make_server, make_client, example):
    server = make_server(example, 1)
    client = make_client(server, example)
    client.send(numbered(example, 3))
    sample = server.sample()

    def check():
        for call in (
            server.sample,
            server.metrics,
            server.close,
            lambda: server.submit(example),
            lambda: client.send(example),
            client.wait,
            client.close,
        ):
            with pytest.raises(RuntimeError, match="forked"):
                call()
        assert sample.batch["reward"][0] == 3  # memory stays readable
        with pytest.raises(RuntimeError, match="forked"):
            sample.release()
        act_in_child = rondo.Server(example, 1)
        act_in_child.submit(numbered(example, 4))
        assert act_in_child.sample().batch["reward"][0] == 4

    in_child(check)
    # The parent's are as they were.
    sample.release()
    client.send(numbered(example, 5))
    assert server.sample().batch["reward"][0] == 5


@pytest.mark.parametrize("where", ["in the parent", "in the child"])
def test_what_a_fork_copied_may_be_dropped_anywhere(make_server, example, where):
    server = rondo.Server(example, 1, rondo.TcpTransport(0, host="127.0.0.1"))
    server.start()
    client = rondo.TcpClient("127.0.0.1", server.port, example)
    server.submit(example)
    things = [server.sample(), client, server]
    del server, client
    in_child(things.clear if where == "in the child" else lambda: None)
    things[1].send(example)
    assert things[2].sample() is not None
    things.clear()


def test_pickling_says_what_to_do_instead(make_server, make_client, example):
    server = make_server(example)
    client = make_client(server, example)
    for thing in (server, client):
        with pytest.raises(TypeError, match="cannot be pickled: "):
            pickle.dumps(thing)
    transport = pickle.loads(pickle.dumps(rondo.TcpTransport(7, 2, host="::1")))
    assert repr(transport) == "TcpTransport(port=7, num_threads=2, host='::1')"


PREAMBLE = """
import asyncio, gc, os, sys, threading, time
import numpy as np
import rondo
example = {"obs": np.zeros(4, np.float32)}
def make(**options):
    server = rondo.Server(example, 1, rondo.TcpTransport(0, host="127.0.0.1"), **options)
    server.start()
    return server
def connect(server, window=32):
    return rondo.TcpClient("127.0.0.1", server.port, example, window)
"""

ENDINGS = {
    "with everything alive": """
        server = make(); client = connect(server)
        client.send(example); client.wait()
        sample = server.sample()
        view = sample.batch["obs"][0, 1:]
    """,
    "in cycles": """
        server = make(); client = connect(server)
        client.send(example)
        cycle = [server, client, server.sample()]
        cycle.append(cycle)
        gc.disable()
    """,
    "with the batch in a module that goes last": """
        server = make(); server.submit(example)
        sys.kept = server.sample().batch["obs"]
        np.kept = server
    """,
    "with daemon threads in every wait": """
        server = make(num_buffers=1); client = connect(server, 1)
        other = make()
        client.send(example); client.send(example)
        for wait in (other.sample, client.wait, lambda: client.send(example),
                     lambda: [server.submit(example) for _ in range(3)]):
            threading.Thread(target=wait, daemon=True).start()
        while not other.metrics()["consumers_waiting"]: pass
    """,
    "in the middle of many daemon threads": """
        server = make(num_buffers=4); client = connect(server)
        def run(call):
            while True: call()
        for call in (lambda: client.send(example), lambda: server.submit(example), server.sample):
            threading.Thread(target=run, args=[call], daemon=True).start()
        while server.metrics()["samples_inserted_total"] < 1000: pass
    """,
    "by an exception": """
        server = make(); client = connect(server); client.send(example)
        sample = server.sample()
        sys.exit(3)
    """,
    "with an event loop that waits": """
        server = make(num_buffers=1); other = make()
        async def main():
            client = await rondo.AsyncTcpClient.connect("127.0.0.1", server.port, example, 1)
            await client.send(example); await client.send(example)
            tasks = [asyncio.create_task(other.asample()) for _ in range(2)]
            tasks.append(asyncio.create_task(client.wait()))
            await asyncio.sleep(0)
            loop.stop()
            await asyncio.sleep(100)
        loop = asyncio.new_event_loop()
        task = loop.create_task(main())
        loop.run_forever()
        task._log_destroy_pending = False
        for other in asyncio.all_tasks(loop): other._log_destroy_pending = False
    """,
}


@pytest.mark.fast
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends(ending):
    program = PREAMBLE + textwrap.dedent(ENDINGS[ending])
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.returncode == (3 if "exception" in ending else 0), result.stderr
    assert "Traceback" not in result.stderr and "Fatal" not in result.stderr


def test_ctrl_c_ends_a_program_that_waits():
    program = PREAMBLE + "print('ready', flush=True)\nmake().sample()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert process.returncode == -signal.SIGINT


def test_samples_that_were_sent_arrive_although_the_program_ends(make_server, example):
    server = make_server(example, 1)
    program = f"""
import numpy as np, rondo
example = {{"obs": np.zeros(4, np.float32), "reward": np.zeros((), np.float32)}}
client = rondo.TcpClient("127.0.0.1", {server.port}, example)
for _ in range(3): client.send(example)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    for _ in range(3):
        assert server.sample(timeout=10) is not None


def test_the_module_offers_the_commands_of_the_executable():
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "rondo", *arguments], capture_output=True, text=True
        )

    assert run("--version").stdout == f"rondo {rondo.__version__}\n"
    demo = run("demo", "--actors", "2", "--samples", "500", "--batch-size", "100")
    assert demo.returncode == 0 and "contents ok" in demo.stdout
    assert run("nonsense").returncode == 2
