# SPDX-License-Identifier: Apache-2.0
"""What is compared: which server with which load, and the settings of both."""

from typing import NamedTuple

import programs
import spec_text

SPECS = spec_text.read_specs()
NUM_BUFFERS = 3
MAX_PROCESSES = 4

# Name in specs.txt -> name in tables, samples in a batch. Both servers get the same.
SIZES = {"tiny": ("20 B", 1024), "k1": ("1 KB", 256), "k68": ("68 KB", 32),
         "k335": ("335 KB", 32), "large": ("1 MB", 32), "m2": ("2 MB", 32)}

# For the rows of latency, in which a larger batch would only add the time that it takes to fill.
LATENCY_BATCH = 32

# id-echo's defaults, but a longer queue for small samples: on 2 cores that was the best of 1, 2, 8
# drainers, 1, 2, 8 threads, queues of 8 and 64, and 32 or 256 samples in flight. With large samples
# a longer queue gained nothing, and it may hold that many samples of every connection.
ID_ECHO = {"num_drainers": 8, "num_threads": 8, "producer_queue_size": {"small": 64, "large": 8},
           "max_inflight_msgs": 32}
LARGEST_SMALL = 8_192  # bytes

# Server and load. A server or load of id-echo needs its environment.
VARIANTS = {
    "rondo": ("rondo", "rondo"),
    "rondo, one array": ("rondo", "rondo"),
    "id-echo": ("id-echo", "id-echo"),
    "rondo to id-echo": ("id-echo", "rondo"),
    "id-echo to rondo": ("rondo", "id-echo"),
    "raw recv": ("raw recv", "raw"),
    "raw readv": ("raw readv", "raw"),
}


class Tools(NamedTuple):
    """Where the programs are; without `python`, id-echo's environment, its variants are left out.
    """
    ingest: str
    python: str | None


def available(variant, tools):
    return tools.python is not None or "id-echo" not in VARIANTS[variant]


def payload_bytes(size):
    return spec_text.payload_bytes(spec_text.parse(SPECS[size]))


def is_large(size):
    return payload_bytes(size) > LARGEST_SMALL


def commands(variant, size, connections, rate, tools):
    """The command lines of server and load; the port is still missing in the second."""
    server, load = VARIANTS[variant]
    spec = SPECS[f"{size}_one" if variant == "rondo, one array" else size]
    ring = ["--batch-size", LATENCY_BATCH if rate else SIZES[size][1], "--buffers", NUM_BUFFERS]
    ages = ["--ages"] if rate else []
    actors = ["--connections", connections, "--processes", min(connections, MAX_PROCESSES)]
    pace = ["--rate", rate] if rate else []
    raw = ["--bytes", payload_bytes(size)]
    queue = ID_ECHO["producer_queue_size"]["large" if is_large(size) else "small"]
    servers = {
        "rondo": [tools.ingest, "serve", "--spec", spec, *ring, *ages],
        "id-echo": [tools.python, programs.HERE / "echo_serve.py", "--spec", spec, *ring, *ages,
                    "--drainers", ID_ECHO["num_drainers"], "--threads", ID_ECHO["num_threads"],
                    "--queue", queue],
        "raw recv": [tools.ingest, "raw-serve", *raw, *ring],
        "raw readv": [tools.ingest, "raw-serve", *raw, *ring, "--readv"],
    }
    loads = {
        "rondo": [tools.ingest, "load", "--spec", spec, *actors, *pace],
        "id-echo": [tools.python, programs.HERE / "echo_load.py", "--spec", spec, *actors, *pace,
                    "--in-flight", ID_ECHO["max_inflight_msgs"]],
        "raw": [tools.ingest, "raw-load", *raw, *actors],
    }
    return servers[server], loads[load]
