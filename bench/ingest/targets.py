# SPDX-License-Identifier: Apache-2.0
"""The targets of the project, and what a run says about them."""

from typing import NamedTuple

from results import Spread

SMALL = ("tiny", "k1")
LARGE = ("k68", "k335", "large", "m2")
RATE = "samples_per_second"
CPU = "cpu_ns_per_sample"


class Verdict(NamedTuple):
    what: str
    size: str
    connections: int
    measured: Spread
    limit: float
    at_least: bool  # else at most
    unit: str = ""  # "": a ratio

    @property
    def met(self):
        value = self.measured.median
        return value >= self.limit if self.at_least else value <= self.limit


def verdicts(results):
    """Those that the rows of this run allow."""
    return [verdict for verdict in all_verdicts(results) if verdict.measured is not None]


def all_verdicts(results):
    def ratio(what, metric, size, connections, above, below, limit, at_least=True,
              kind="throughput"):
        cell = (metric, size, connections)
        measured = results.ratio((*cell, above, kind), (*cell, below, kind))
        return Verdict(what, size, connections, measured, limit, at_least)

    for sizes, limit in ((SMALL, 25), (LARGE, 2.5)):
        for size in sizes:
            for connections in (8, 64):
                yield ratio("samples/s, rondo / id-echo", RATE, size, connections, "rondo",
                            "id-echo", limit)
    for size in LARGE:
        for connections in (8, 64):
            yield ratio("share of the raw limit", RATE, size, connections, "rondo", "raw", 0.85)
    for size, limit in (("tiny", 1 / 30), ("k1", 1 / 15), *((size, 1 / 2) for size in LARGE)):
        yield ratio("server CPU per sample, C++ clients, rondo / id-echo", CPU, size, 8, "rondo",
                    "rondo to id-echo", limit, at_least=False)
    for size in SMALL:
        yield ratio("samples/s of id-echo's clients, at rondo / at id-echo", RATE, size, 8,
                    "id-echo to rondo", "id-echo", 1.5)
        yield ratio("server CPU per sample, id-echo's clients, rondo / id-echo", CPU, size, 8,
                    "id-echo to rondo", "id-echo", 1 / 3, at_least=False)
    for size in SMALL + LARGE:
        for what, metric in (("p50 from send to lease", "ages.p50_ns"),
                             ("the same, youngest of each batch", "youngest.p50_ns")):
            yield ratio(f"{what}, rondo / id-echo", metric, size, 8, "rondo", "id-echo", 0.7,
                        at_least=False, kind="latency")
    for size in SMALL + LARGE:
        measured = results.ratio((CPU, size, 256, "rondo"), (CPU, size, 8, "rondo"))
        yield Verdict("CPU per sample, 256 connections / 8", size, 256, measured, 1.3, False)
    resident = results.values("resident_bytes", "large", 256, "rondo").values()
    beyond = [(bytes_ - results.ring_bytes("large")) / 1e6 for bytes_ in resident]
    yield Verdict("resident memory beyond the ring", "large", 256,
                  Spread.of(beyond) if beyond else None, 64, False, " MB")
