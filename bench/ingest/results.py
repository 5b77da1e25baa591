# SPDX-License-Identifier: Apache-2.0
"""Medians, spreads and ratios of what run.py wrote."""

import statistics
from typing import NamedTuple


class Spread(NamedTuple):
    median: float
    least: float
    most: float

    @staticmethod
    def of(values):
        return Spread(statistics.median(values), min(values), max(values))


class Results:
    def __init__(self, data):
        self.data = data
        self.rows = {(row["kind"], row["size"], row["connections"], row["variant"]): row
                     for row in data["rows"]}

    def values(self, metric, size, connections, variant, kind="throughput"):
        """Round -> value; empty for what was not run. `metric` may be `ages.p50_ns`. "raw" is the
        faster of the two ways to receive."""
        if variant == "raw":
            variant = self._faster(size, connections, ("raw recv", "raw readv"))
        row = self.rows.get((kind, size, connections, variant), {"runs": []})
        return {run["round"]: value for run in row["runs"]
                if (value := look_up(run, metric)) is not None}

    def _faster(self, size, connections, names):
        def rate(name):
            rates = self.values("samples_per_second", size, connections, name).values()
            return statistics.median(rates) if rates else 0
        return max(names, key=rate)

    def spread(self, *cell, **kind):
        values = self.values(*cell, **kind).values()
        return Spread.of(values) if values else None

    def ratio(self, above, below):
        """Of two rows round by round, so that what held up a round meets both sides. Each is a
        tuple of arguments of `values`."""
        above, below = self.values(*above), self.values(*below)
        ratios = [above[turn] / below[turn] for turn in above.keys() & below.keys()]
        return Spread.of(ratios) if ratios else None

    def bytes_of(self, size):
        return self.data["settings"]["payload_bytes"][size]

    def ring_bytes(self, size):
        settings = self.data["settings"]
        return self.bytes_of(size) * settings["batch_size"][size] * settings["num_buffers"]


def look_up(run, metric):
    for key in metric.split("."):
        run = run.get(key) if run else None
    return run
