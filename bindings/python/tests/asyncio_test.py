# SPDX-License-Identifier: Apache-2.0
"""The calls of coroutines: on the running loop, cancellable, without a thread for each."""

import asyncio
import gc
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import numbered

import rondo
from rondo import AsyncTcpClient, ConnectionClosedError


def fill(server, example, first=0, count=4):
    for number in range(first, first + count):
        server.submit(numbered(example, number))


def until(condition):
    """Lets the loop run until the condition holds."""

    async def poll():
        while not condition():
            await asyncio.sleep(0)

    return asyncio.wait_for(poll(), 30)


@pytest.mark.fast
def test_a_batch_is_awaited_without_another_thread(make_server, example):
    server = make_server(example)

    async def main():
        threads = threading.active_count()
        task = asyncio.create_task(server.asample())
        await until(lambda: server.metrics()["consumers_waiting"])
        fill(server, example)
        sample = await task
        assert sample.batch["reward"].tolist() == [0, 1, 2, 3]
        assert threading.active_count() == threads

    asyncio.run(main())


@pytest.mark.fast
def test_async_for_ends_when_the_server_is_closed_and_empty(example):
    server = rondo.Server(example, 2, num_buffers=2)

    async def main():
        firsts = []

        async def learn():
            async for sample in server:
                firsts.append(sample.batch["reward"][0])
                del sample

        learner = asyncio.create_task(learn())
        for number in range(10):
            await until(lambda: server.metrics()["consumers_waiting"])
            server.submit(numbered(example, number))
            if number % 2:
                await until(lambda n=number: len(firsts) == (n + 1) // 2)
        server.close()
        await learner
        assert firsts == [0, 2, 4, 6, 8]

    asyncio.run(main())


@pytest.mark.fast
def test_a_cancelled_wait_loses_no_batch(example):
    server = rondo.Server(example, 1, num_buffers=4)

    async def main():
        got = []
        for number in range(200):
            task = asyncio.create_task(server.asample())
            if number % 3:
                await until(lambda: server.metrics()["consumers_waiting"])
            fill(server, example, number, 1)
            for _ in range(number % 5):  # the batch gets ever nearer before the task is cancelled
                await asyncio.sleep(0)
            task.cancel()
            try:
                got.append((await task).batch["reward"][0])
            except asyncio.CancelledError:
                got.append((await server.asample(timeout=10)).batch["reward"][0])
            assert server.metrics()["consumers_waiting"] == 0
        assert got == list(range(200))

    asyncio.run(main())


def test_cancelling_passes_the_wake_on_to_another_thread(example):
    server = rondo.Server(example, 1)
    samples = []
    thread = threading.Thread(target=lambda: samples.append(server.sample(timeout=30)))

    async def main():
        task = asyncio.create_task(server.asample())
        await until(lambda: server.metrics()["consumers_waiting"])
        thread.start()
        await until(lambda: server.metrics()["consumers_waiting"] == 2)
        fill(server, example, 7, 1)  # wakes the task, whose loop does not run now
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    thread.join()
    assert samples[0].batch["reward"][0] == 7


@pytest.mark.fast
def test_time_outs_and_the_held_ring_are_errors(example):
    server = rondo.Server(example, 1, num_buffers=2)

    async def main():
        with pytest.raises(TimeoutError):
            await server.asample(timeout=0.02)
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):
            await asyncio.wait_for(server.asample(), 0.02)
        fill(server, example, 0, 2)
        kept = [await server.asample(), await server.asample()]
        with pytest.raises(RuntimeError, match="num_buffers"):
            await server.asample()
        task = asyncio.create_task(server.asample(wait_for_release=True))
        await until(lambda: server.metrics()["consumers_waiting"])
        kept.clear()
        fill(server, example, 5, 1)
        assert (await task).batch["reward"][0] == 5

    asyncio.run(main())


@pytest.mark.fast
def test_many_tasks_share_the_batches(example):
    server = rondo.Server(example, 1, num_buffers=8)

    async def main():
        async def one():
            sample = await server.asample(wait_for_release=True)
            return int(sample.batch["reward"][0])

        tasks = [asyncio.create_task(one()) for _ in range(50)]
        producer = threading.Thread(target=fill, args=[server, example, 0, 50])
        producer.start()
        assert sorted(await asyncio.gather(*tasks)) == list(range(50))
        producer.join()

    asyncio.run(main())


@pytest.mark.fast
def test_a_client_sends_waits_and_closes(make_server, example):
    server = make_server(example, 8)

    async def main():
        async with await AsyncTcpClient.connect("127.0.0.1", server.port, example, 4) as client:
            assert "127.0.0.1" in repr(client)
            for number in range(8):
                await client.send(numbered(example, number))
            await client.wait()
            await client.send_many(numbered(example, number) for number in range(8, 16))
            stacked = {
                "obs": np.zeros((8, 4), np.float32),
                "reward": np.arange(16, 24, dtype=np.float32),
            }
            await client.send_batch(stacked)
            await client.wait()
            assert client.in_flight == 0
        assert client.closed
        with pytest.raises(ConnectionClosedError):
            await client.send(example)
        for first in (0, 8, 16):
            sample = await server.asample()
            assert sample.batch["reward"].tolist() == list(range(first, first + 8))

    asyncio.run(main())


def test_connecting_fails_with_the_same_exceptions(make_server, example):
    server = make_server(example)

    async def main():
        with pytest.raises(ConnectionRefusedError):
            await AsyncTcpClient.connect("127.0.0.1", 1, example)
        with pytest.raises(ValueError, match="Server spec mismatch"):
            await AsyncTcpClient.connect("127.0.0.1", server.port, {"x": np.zeros(1)})
        client = AsyncTcpClient("127.0.0.1", 1, rondo._tree.describe(example))
        with pytest.raises(RuntimeError, match="not connected"):
            await client.send(example)

    asyncio.run(main())


@pytest.mark.fast
@pytest.mark.parametrize("size", [16, 1 << 20])
def test_a_cancelled_send_leaves_a_usable_connection(make_server, size):
    example = {"x": np.zeros(size, np.uint8)}
    server = make_server(example, 1, num_buffers=2)

    async def main():
        client = await AsyncTcpClient.connect("127.0.0.1", server.port, example, 2)
        array = np.full(size, 1, np.uint8)
        sent = cancelled = 0
        while not cancelled:
            task = asyncio.create_task(client.send({"x": array}))
            done, _ = await asyncio.wait([task], timeout=0.1)
            if done:
                sent += 1
            else:
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
                cancelled += 1
            array[:] = 2  # from now on it is ours again
            array = np.full(size, 1, np.uint8)
        with pytest.raises(TimeoutError):
            await client.wait(timeout=0.02)
        last = asyncio.create_task(client.send({"x": np.full(size, 3, np.uint8)}))
        received = 0
        while (sample := await server.asample(timeout=30)).batch["x"][0, 0] != 3:
            assert (sample.batch["x"] == 1).all()
            received += 1
            del sample
        await last
        assert sent <= received <= sent + cancelled  # one whose first bytes were out counts as sent
        await client.close()

    asyncio.run(main())


def test_a_dying_server_ends_the_waits(make_server, example):
    server = make_server(example, 1, num_buffers=1)

    async def main():
        client = await AsyncTcpClient.connect("127.0.0.1", server.port, example)
        for _ in range(4):
            await client.send(example)
        wait = asyncio.create_task(client.wait())
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, server.close)
        with pytest.raises(ConnectionClosedError):
            await wait

    asyncio.run(main())


@pytest.mark.fast
def test_a_loop_may_close_with_calls_pending(make_server, example):
    server = rondo.Server(example, 1)
    full = make_server(example, 1, num_buffers=1)
    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(AsyncTcpClient.connect("127.0.0.1", full.port, example, 1))
    for _ in range(2):
        loop.run_until_complete(client.send(example))
    payload = np.zeros(4, np.float32)
    gone = weakref.ref(payload)
    tasks = [loop.create_task(server.asample()) for _ in range(3)]
    tasks.append(loop.create_task(client.wait()))
    tasks.append(loop.create_task(client.send({"obs": payload, "reward": np.float32(0)})))
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    assert not any(task.done() for task in tasks)
    loop.close()
    del payload
    for task in tasks:
        task._log_destroy_pending = False
    tasks.clear()
    del loop, task
    gc.collect()
    while gone() is not None:  # the background thread hears of it, and we let go of the GIL
        time.sleep(0)
    # Nobody stands in the way of those who are left.
    fill(server, example, 9, 1)
    assert server.sample(timeout=10).batch["reward"][0] == 9
    asyncio.run(client.close(timeout=0))


def test_a_client_serves_one_loop_after_another(make_server, example):
    server = make_server(example, 1)
    client = asyncio.run(AsyncTcpClient.connect("127.0.0.1", server.port, example))
    for number in range(3):
        asyncio.run(client.send(numbered(example, number)))
        asyncio.run(client.wait())
        assert server.sample().batch["reward"][0] == number
    assert asyncio.run(client.close()) == 0
