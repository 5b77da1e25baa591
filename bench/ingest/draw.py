# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run of run.py: `draw.py FILE.json DIRECTORY` writes SVG files there."""

import html
import json
import math
import pathlib
import sys
from typing import NamedTuple

import report
from results import Results, Spread

COLOURS = {"rondo": "#0b6e4f", "id-echo": "#c8553d", "rondo to id-echo": "#e8a33d",
           "id-echo to rondo": "#5b8def", "raw": "#777777"}
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 84, 170, 58, 74


class Series(NamedTuple):
    name: str
    points: list  # a Spread or None for each place on the x axis


def text(x, y, content, size=12, anchor="start", colour="#222222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}">{html.escape(content)}</text>')


def line(x1, y1, x2, y2, colour, width=1):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def power_of_ten(exponent):
    units = {3: "k", 6: "M", 9: "G"}
    if exponent < 3:
        return f"{10 ** exponent:g}"
    return f"{10 ** (exponent % 3)}{units[exponent - exponent % 3]}"


def chart(title, unit, places, series, footer):
    """Medians as dots with whiskers from the least to the most, over a logarithmic axis."""
    series = [one for one in series if any(one.points)]
    values = [value for one in series for point in one.points if point for value in point]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def height(value):
        share = (math.log10(value) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    step = (WIDTH - LEFT - RIGHT) / len(places)
    parts = [text(LEFT, 24, title, 16), text(LEFT, 44, unit, 12, colour="#555555")]
    for exponent in range(low, high + 1):
        y = height(10 ** exponent)
        parts.append(line(LEFT, y, WIDTH - RIGHT, y, "#dddddd"))
        parts.append(text(LEFT - 8, y + 4, power_of_ten(exponent), anchor="end"))
    for index, place in enumerate(places):
        parts.append(text(LEFT + (index + 0.5) * step, HEIGHT - BOTTOM + 20, place,
                          anchor="middle"))
    for order, one in enumerate(series):
        colour = COLOURS[one.name]
        offset = (order + 1) / (len(series) + 1)
        for index, point in enumerate(one.points):
            if point is None:
                continue
            x = LEFT + (index + offset) * step
            parts.append(line(x, height(point.least), x, height(point.most), colour, 2))
            parts.append(f'<circle cx="{x:.1f}" cy="{height(point.median):.1f}" r="4.5" '
                         f'fill="{colour}"/>')
        y = TOP + 12 + 20 * order
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{y - 4}" r="4.5" fill="{colour}"/>')
        parts.append(text(WIDTH - RIGHT + 32, y, one.name))
    for index, row in enumerate(footer):
        parts.append(text(LEFT, HEIGHT - 28 + 14 * index, row, 10, colour="#555555"))
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'{body}\n</svg>\n')


def pictures(data):
    """File name -> SVG, of what there are rows for."""
    results = Results(data)
    machine = data["machine"]
    footer = [f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}",
              f"{machine['compiler']}, commit {machine['commit']}, {machine['date']}"]
    sizes = list(dict.fromkeys(row["size"] for row in data["rows"]))
    labels = [report.label(size) for size in sizes]
    numbers = sorted({row["connections"] for row in data["rows"] if row["kind"] == "throughput"})
    connections = 8 if 8 in numbers else numbers[0]

    def over_sizes(metric, names, kind="throughput", scale=1.0):
        return [Series(name, [scaled(results.spread(metric, size, connections, name, kind=kind),
                                     scale) for size in sizes]) for name in names]

    def over_connections(size, names):
        return [Series(name, [results.spread("samples_per_second", size, number, name)
                              for number in numbers]) for name in names]

    drawn = {
        "throughput": (f"Samples a second, {connections} connections",
                       "clients to server; dot: median, line: least to most", labels,
                       over_sizes("samples_per_second", COLOURS)),
        "cpu": (f"CPU time of the server process, {connections} connections", "ns for a sample",
                labels, over_sizes("cpu_ns_per_sample", COLOURS)),
        "latency": ("From send to lease, median, at equal load",
                    f"us, {connections} connections", labels,
                    over_sizes("ages.p50_ns", ("rondo", "id-echo"), "latency", 1e-3)),
    }
    if len(numbers) > 1:
        for size in sizes:
            drawn[f"connections-{size}"] = (
                f"Samples a second, samples of {report.label(size)}", "by number of connections",
                [str(number) for number in numbers],
                over_connections(size, ("rondo", "id-echo", "raw")))
    return {name: chart(*picture, footer) for name, picture in drawn.items()
            if any(point for series in picture[3] for point in series.points)}


def scaled(spread, factor):
    return spread and Spread(*(value * factor for value in spread))


def main(source, directory):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    data = json.loads(pathlib.Path(source).read_text())
    for name, svg in pictures(data).items():
        (directory / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main(*sys.argv[1:])
