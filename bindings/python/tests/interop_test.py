# SPDX-License-Identifier: Apache-2.0
"""The same programs with id-echo and with rondo, in all four pairings, as real processes."""

import pathlib
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parent / "programs"
ACTORS, SAMPLES, BATCH = 8, 8, 8


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, PROGRAMS / program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("client", ["rondo", "echo"])
@pytest.mark.parametrize("server", ["rondo", "echo"])
def test_clients_and_servers_of_both_packages_understand_each_other(server, client):
    if "echo" in (server, client):
        pytest.importorskip("echo")
    # id-echo loses what it has acknowledged when a connection closes, and may never wake an actor
    # that waits for room: so the ring takes all, and nobody closes before all has come.
    learner = start("learner.py", server, BATCH, ACTORS * SAMPLES // BATCH)
    port = learner.stdout.readline().strip()
    actors = [start("actor.py", client, port, actor * SAMPLES, SAMPLES) for actor in range(ACTORS)]
    for actor in actors:
        assert actor.stdout.readline() == "acknowledged\n"
    numbers = list(map(int, learner.stdout.readline().split()))
    for process in [learner, *actors]:
        process.communicate("close\n")
        assert process.returncode == 0
    assert sorted(numbers) == list(range(ACTORS * SAMPLES))
    for actor in range(ACTORS):
        of_actor = [number for number in numbers if number // SAMPLES == actor]
        assert of_actor == sorted(of_actor)
