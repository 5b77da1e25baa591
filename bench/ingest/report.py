# SPDX-License-Identifier: Apache-2.0
"""The table of a run: `report.py FILE.json`, or what run.py prints."""

import json
import sys

import variants
from results import Results
from targets import verdicts


def label(size):
    return variants.SIZES[size][0]


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(value):
    return f"{number(value.median)} [{number(value.least)} to {number(value.most)}]"


def fraction(value):
    """Small ratios are read more easily as 1/30."""
    return f"1/{1 / value:.3g}" if 0 < value < 0.4 else f"{value:.3g}"


def table(head, lines):
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    rows = [head, ["-" * width for width in widths], *lines]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                     for row in rows)


def throughput_table(results):
    lines = []
    for kind, size, connections, variant in results.rows:
        if kind != "throughput":
            continue
        cell = (size, connections, variant)
        rate = results.spread("samples_per_second", *cell)
        gigabytes = f"{rate.median * results.bytes_of(size) / 1e9:.3f}" if rate else "-"
        cpu = results.spread("cpu_ns_per_sample", *cell)
        lines.append([label(size), str(connections), variant, spread(rate) if rate else "-",
                      gigabytes, spread(cpu) if cpu else "-", hung(results.rows[kind, *cell])])
    return table(["sample", "N", "clients to server", "samples/s", "GB/s", "server ns/sample",
                  "hung"], lines)


def hung(row):
    return f"{row['hung']} of {row['hung'] + len(row['runs'])}" if row["hung"] else ""


def latency_table(results):
    lines = []
    for key, row in results.rows.items():
        kind, size, connections, variant = key
        if kind != "latency" or not row["runs"]:
            continue
        cells = [spread_us(results.spread(f"{ages}.{rank}_ns", *key[1:], kind=kind))
                 for ages in ("ages", "youngest") for rank in ("p50", "p99")]
        rate = results.spread("samples_per_second", *key[1:], kind=kind)
        lines.append([label(size), str(connections), variant, number(rate.median), *cells,
                      hung(row)])
    return table(["sample", "N", "clients to server", "samples/s", "p50 us", "p99 us",
                  "youngest p50 us", "youngest p99 us", "hung"], lines)


def spread_us(value):
    return spread(type(value)(*(part / 1e3 for part in value)))


def target_table(results):
    lines = []
    for verdict in verdicts(results):
        show = number if verdict.unit else fraction
        measured = " to ".join(show(value) for value in verdict.measured[1:])
        lines.append([verdict.what, label(verdict.size), str(verdict.connections),
                      f"{show(verdict.measured.median)}{verdict.unit} [{measured}]",
                      f"{'>=' if verdict.at_least else '<='} {show(verdict.limit)}{verdict.unit}",
                      "yes" if verdict.met else "NO"])
    return table(["what", "sample", "N", "measured", "target", "met"], lines)


def text(data):
    results = Results(data)
    parts = [about(data), throughput_table(results)]
    if any(kind == "latency" for kind, *_ in results.rows):
        parts += ["From send to lease. id-echo was given half of the samples/s that it can take, rondo what\n"
                  "id-echo then took. `youngest`: of each batch only the youngest sample, so without\n"
                  "the time in which the batch filled.",
                  latency_table(results)]
    return "\n\n".join([*parts, target_table(results)])


def about(data):
    machine, settings = data["machine"], data["settings"]
    return "\n".join([
        f"{machine['cpu']}, {machine['cores']} cores ({settings['cores']}), Linux "
        f"{machine['kernel']}, {machine['compiler']}",
        f"commit {machine['commit']}, {machine['date']}, load average {machine['load_before']:.1f} "
        f"before, {machine['load_after']:.1f} after",
        "Medians [least to most] of interleaved runs."])


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(text(json.load(file)))
