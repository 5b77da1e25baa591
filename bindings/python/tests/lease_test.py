# SPDX-License-Identifier: Apache-2.0
"""Who keeps a batch's memory, how long, and what happens when all of it is kept."""

import gc
import io
import pickle
import sys
import threading

import numpy as np
import pytest
from conftest import numbered

import rondo


def full_server(example, batches=2, **options):
    """A server of two buffers, with so many batches of one sample ready, numbered from 0."""
    server = rondo.Server(example, 1, num_buffers=2, **options)
    for number in range(batches):
        server.submit(numbered(example, number))
    return server


def room(server):
    """Whether a sample can be submitted now."""
    try:
        server.submit(server_example, timeout=0)
        return True
    except TimeoutError:
        return False


server_example = {"obs": np.zeros(4, np.float32), "reward": np.zeros((), np.float32)}

HOLDERS = {
    "the sample": lambda sample: sample,
    "the tree": lambda sample: sample.batch,
    "one array": lambda sample: sample.batch["obs"],
    "a slice": lambda sample: sample.batch["obs"][:, 1:3],
    "a reshape": lambda sample: sample.batch["obs"].reshape(-1),
    "a transpose of a view": lambda sample: sample.batch["obs"][0].T,
    "another dtype": lambda sample: sample.batch["obs"].view(np.uint32),
    "a memoryview": lambda sample: memoryview(sample.batch["obs"]),
    "frombuffer": lambda sample: np.frombuffer(sample.batch["obs"], np.float32),
    "asarray": lambda sample: np.asarray(sample.batch["obs"]),
    "from_dlpack": lambda sample: np.from_dlpack(sample.batch["obs"]),
    "an iterator": lambda sample: sample.batch["obs"].flat,
    "a closure": lambda sample: lambda: sample.batch,
}


@pytest.mark.fast
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_refers_to_the_memory_keeps_the_batch(holder):
    server = full_server(server_example)
    kept = HOLDERS[holder](server.sample())
    assert server.metrics()["live_leases"] == 1
    assert not room(server)
    del kept
    gc.collect()
    assert server.metrics()["live_leases"] == 0
    assert room(server)


@pytest.mark.fast
@pytest.mark.parametrize("holder", HOLDERS)
def test_holding_the_whole_ring_is_an_error_that_says_so(holder):
    server = full_server(server_example)
    kept = [HOLDERS[holder](server.sample()) for _ in range(2)]
    with pytest.raises(RuntimeError, match="num_buffers"):
        server.sample()
    kept.clear()
    server.submit(numbered(server_example, 7))
    assert server.sample().batch["reward"][0] == 7


def test_garbage_in_cycles_is_collected_before_that_error():
    gc.disable()
    try:
        server = full_server(server_example)
        for _ in range(2):
            cycle = [server.sample()]
            cycle.append(cycle)
            del cycle
        threading.Timer(0.05, server.submit, [numbered(server_example, 5)]).start()
        assert server.sample().batch["reward"][0] == 5
    finally:
        gc.enable()


def test_garbage_of_another_thread_does_not_hold_up_a_wait():
    gc.disable()
    try:
        server = full_server(server_example)

        def leave_cycles():
            for _ in range(2):
                cycle = [server.sample()]
                cycle.append(cycle)

        thread = threading.Thread(target=leave_cycles)
        thread.start()
        thread.join()
        thread = threading.Thread(target=server.submit, args=[numbered(server_example, 5)])
        thread.start()
        assert server.sample().batch["reward"][0] == 5
        thread.join()
    finally:
        gc.enable()


def test_a_thread_that_hands_its_batches_on_may_wait_for_their_release():
    server = full_server(server_example)
    kept = [server.sample(), server.sample()]
    samples = []
    waiter = threading.Thread(target=lambda: samples.append(server.sample(wait_for_release=True)))
    waiter.start()
    while server.metrics()["consumers_waiting"] == 0:
        pass
    kept.clear()
    server.submit(numbered(server_example, 9))
    waiter.join()
    assert samples[0].batch["reward"][0] == 9


@pytest.mark.fast
def test_old_views_neither_change_nor_dangle():
    server = full_server(server_example)
    views = [server.sample().batch["obs"][:, :2] for _ in range(2)]
    before = [view.copy() for view in views]
    assert not room(server)
    server.close()
    del server
    gc.collect()
    for view, expected in zip(views, before):
        np.testing.assert_array_equal(view, expected)


def test_arrays_are_read_only_unless_asked_otherwise():
    server = full_server(server_example)
    with pytest.raises(ValueError, match="read-only"):
        server.sample().batch["obs"][0] = 1
    batch = server.sample(writable=True).batch
    batch["obs"][:] = 5
    assert (batch["obs"] == 5).all()


def test_the_lease_ends_every_base_chain():
    server = full_server(server_example)
    batch = server.sample().batch
    lease = batch["obs"].base
    assert type(lease).__name__ == "Lease" and batch["reward"].base is lease
    assert batch["obs"][0][1:].base is batch["obs"]
    assert "batch 0, 1 samples" in repr(lease)


@pytest.mark.fast
def test_release_gives_the_memory_back_and_empties_the_arrays():
    server = full_server(server_example)
    sample = server.sample()
    assert not room(server)
    sample.release()
    assert sample.batch["obs"].shape == (0, 4)
    assert sample.batch["reward"].shape == (0,)
    assert room(server)
    sample.release()
    assert server.metrics()["batches_released_total"] == 1
    del sample
    gc.collect()
    assert server.metrics()["batches_released_total"] == 1


@pytest.mark.parametrize(
    "alias",
    [
        lambda batch: batch["obs"][0],
        lambda batch: batch["obs"],
        lambda batch: memoryview(batch["reward"]),
        lambda batch: batch.pop("reward"),
        lambda batch: np.from_dlpack(batch["obs"]),
        lambda batch: batch.update(obs=batch["obs"][:]) or batch["obs"].base,
    ],
)
def test_release_is_refused_while_anything_else_refers_to_the_memory(alias):
    server = full_server(server_example)
    sample = server.sample()
    kept = alias(sample.batch)
    before = np.asarray(kept).copy()
    with pytest.raises(BufferError, match="view"):
        sample.release()
    assert not room(server)
    np.testing.assert_array_equal(np.asarray(kept), before)


def test_release_of_a_copy_does_nothing():
    server = full_server(server_example)
    sample = next(server.dataset_iter(copy=True))
    sample.release()
    assert sample.batch["obs"].shape == (1, 4)


@pytest.mark.parametrize("kept", [0, 1])
def test_dataset_iter_keeps_none_itself(kept):
    """With two buffers, one may be worked on while the next is taken."""
    server = rondo.Server(server_example, 1, num_buffers=2)
    samples = server.dataset_iter()
    history = []
    for number in range(10):
        server.submit(numbered(server_example, number))
        history.append(next(samples))
        assert history[-1].batch["reward"][0] == number
        del history[: len(history) - kept]
        assert server.metrics()["live_leases"] == kept


def test_a_sample_stays_a_named_tuple_and_its_arrays_pickle():
    server = full_server(server_example)
    sample = server.sample()
    batch, info = sample
    assert sample._asdict() == {"batch": batch, "info": info}
    assert sample._replace(info=None).info is None
    copy = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(copy["obs"], batch["obs"])
    file = io.BytesIO()
    np.savez(file, **batch)


@pytest.mark.fast
def test_leases_may_die_in_any_order_on_any_thread():
    server = rondo.Server(server_example, 1, num_buffers=8)
    rng = np.random.default_rng(1)
    kept = []
    for number in range(400):
        server.submit(numbered(server_example, number))
        kept.append((number, server.sample().batch["reward"]))
        rng.shuffle(kept)
        # The batch of num_buffers ago has to go, whatever the order of the others.
        drop = [entry for entry in kept if entry[0] <= number - 7 or rng.random() < 0.3]
        kept = [entry for entry in kept if not any(entry is other for other in drop)]
        thread = threading.Thread(target=drop.clear)
        thread.start()
        thread.join()
        assert all(value[0] == expected for expected, value in kept)
    kept.clear()
    assert server.metrics()["live_leases"] == 0


def test_memory_is_flat_over_ten_thousand_batches():
    example = {"obs": np.zeros(1024, np.float32), "reward": np.zeros((), np.float32)}
    server = rondo.Server(example, 1, num_buffers=2)

    def run(batches):
        for _ in range(batches):
            server.submit(example)
            server.sample()

    run(500)
    objects, resident = len(gc.get_objects()), resident_kib()
    run(10_000)
    assert len(gc.get_objects()) - objects < 100
    assert resident_kib() - resident < 2_000


def resident_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def test_refcounts_of_what_goes_in_do_not_grow():
    leaf = np.zeros(4, np.float32)
    tree = {"obs": leaf, "reward": np.zeros((), np.float32)}
    server = rondo.Server(tree, 4)
    before = sys.getrefcount(leaf), sys.getrefcount(tree)
    for _ in range(8):
        server.submit(tree)
    with pytest.raises(ValueError):
        server.submit({"obs": leaf, "reward": leaf})
    assert (sys.getrefcount(leaf), sys.getrefcount(tree)) == before
