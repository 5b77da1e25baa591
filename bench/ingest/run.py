# SPDX-License-Identifier: Apache-2.0
"""Ingestion over loopback: rondo beside id-echo 0.2.1 and beside what the machine can do at all.

All variants of a row run within seconds of each other, round after round, so that what else the
machine does meets them all alike. Writes JSON; report.py makes a table of it, draw.py pictures.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
from typing import NamedTuple

import programs
import report
import variants

ROOT = programs.HERE.parent.parent


class Cell(NamedTuple):
    """One row of the results: what runs `runs` times."""
    kind: str  # "throughput", or "latency" at the load of `rate_of`
    size: str
    connections: int
    variant: str


class Plan(NamedTuple):
    sizes: tuple
    connections: tuple
    crossed: int  # the number of connections with which clients and servers are also mixed
    latency: tuple  # sizes, at `crossed` connections
    runs: int
    times: tuple  # warm-up and window, in seconds

    def cells(self, tools):
        for size in self.sizes:
            large = variants.is_large(size)
            for connections in self.connections:
                names = ["rondo", "id-echo", "raw recv"] + ["raw readv"] * large
                if connections == self.crossed:
                    names += ["rondo to id-echo", "id-echo to rondo"]
                    names += ["rondo, one array"] * large
                for name in names:
                    if variants.available(name, tools):
                        yield Cell("throughput", size, connections, name)
        for size in self.latency:
            for name in ("id-echo", "rondo"):  # in this order, see `rate_of`
                if tools.python is not None:  # else there is no rate to go by
                    yield Cell("latency", size, self.crossed, name)


ALL = tuple(variants.SIZES)
PLANS = {
    "full": Plan(ALL, (1, 8, 64, 256), 8, ("tiny", "k1", "k68", "large"), 5, (0.4, 1.2)),
    "quick": Plan(("tiny", "k1", "k68", "large"), (8,), 8, ("tiny", "k1", "k68", "large"), 3,
                  (0.3, 0.6)),
    "smoke": Plan(("tiny", "large"), (2,), 2, (), 1, (0.05, 0.1)),
}


def cores_of(sharing):
    """Cores of the server and of the load."""
    cores = sorted(os.sched_getaffinity(0))
    if sharing == "shared" or len(cores) < 2:
        return set(cores), set(cores)
    return set(cores[: len(cores) // 2]), set(cores[len(cores) // 2:])


def id_echo_python(venv):
    """The interpreter of an environment with id-echo 0.2.1, made if need be; None if PyPI does not
    answer."""
    python = venv / "bin" / "python"
    check = [str(python), "-c", "import echo; assert echo.__version__ == '0.2.1'"]
    if python.exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return str(python)
    for command in ([sys.executable, "-m", "venv", str(venv)],
                    [str(python), "-m", "pip", "install", "--quiet", "id-echo==0.2.1"]):
        if subprocess.run(command).returncode != 0:
            print("run.py: id-echo cannot be installed here; its rows are left out",
                  file=sys.stderr)
            return None
    return str(python)


def rate_of(cell, turn, results):
    """The load of a run of latency, in samples/s; None if id-echo hung, and nothing is known.

    id-echo gets half of its own throughput. rondo gets what id-echo took in the same round: a client
    of id-echo that sleeps between its samples does not always come to half.
    """
    if cell.variant == "id-echo":
        like = results[cell._replace(kind="throughput")]["runs"]
        return statistics.median(run["samples_per_second"] for run in like) / 2 if like else None
    like = results[cell._replace(variant="id-echo")]["runs"]
    return next((run["samples_per_second"] for run in like if run["round"] == turn), None)


def measure(cell, rate, result, cores, times, tools):
    """Another try after a hang: id-echo's producers can wait for ever for a wake that was lost.
    Each is counted."""
    commands = variants.commands(cell.variant, cell.size, cell.connections, rate, tools)
    for _ in range(2):
        try:
            return programs.measure(*commands, cores, times)
        except programs.Hung as hung:
            result["hung"] += 1
            print(f"{cell.variant} hung: {hung}", file=sys.stderr)
    return None


def run_rounds(plan, cells, results, cores, tools):
    for turn in range(plan.runs):
        for number, cell in enumerate(cells, 1):
            print(f"{cell.kind}, round {turn + 1} of {plan.runs}, {number} of {len(cells)}: "
                  f"{variants.SIZES[cell.size][0]}, {cell.connections} connections, "
                  f"{cell.variant}", file=sys.stderr)
            rate = rate_of(cell, turn, results) if cell.kind == "latency" else None
            if cell.kind == "latency" and rate is None:
                continue
            if run := measure(cell, rate, results[cell], cores, plan.times, tools):
                results[cell]["runs"].append(run | {"round": turn, "rate": rate})


def run(plan, cores, tools):
    cells = list(plan.cells(tools))
    results = {cell: cell._asdict() | {"hung": 0, "runs": []} for cell in cells}
    for kind in ("throughput", "latency"):
        run_rounds(plan, [cell for cell in cells if cell.kind == kind], results, cores, tools)
    return [result for result in results.values() if result["runs"] or result["hung"]]


def first_line(*command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return done.stdout.partition("\n")[0] if done.returncode == 0 else None


def machine(build):
    cache = (build / "CMakeCache.txt").read_text()
    compiler = next(line for line in cache.splitlines()
                    if line.startswith("CMAKE_CXX_COMPILER:")).partition("=")[2]
    cpu = next((line.partition(":")[2].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), platform.machine())
    commit = first_line("git", "rev-parse", "--short=12", "HEAD")
    if first_line("git", "status", "--porcelain", "--", "src", "include", "bench"):
        commit = f"{commit} with changes"
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "compiler": first_line(compiler, "--version"), "commit": commit,
            "python": platform.python_version()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "interop" / "venv")
    parser.add_argument("--cores", choices=("shared", "split"), default="shared",
                        help="split: the server has the first half of the cores, the load the rest")
    parser.add_argument("--out", type=pathlib.Path, help="the JSON file to write")
    parser.add_argument("--runs", type=int, help="rounds, if not those of the plan")
    parser.add_argument("--without-id-echo", action="store_true")
    args = parser.parse_args()

    plan = PLANS[args.plan]
    if args.runs:
        plan = plan._replace(runs=args.runs)
    python = None if args.without_id_echo else id_echo_python(args.venv)
    tools = variants.Tools(str(args.build / "bench" / "ingest"), python)
    about = machine(args.build)
    about |= {"date": datetime.date.today().isoformat(), "load_before": os.getloadavg()[0]}
    rows = run(plan, cores_of(args.cores), tools)
    data = {"plan": args.plan, "machine": about | {"load_after": os.getloadavg()[0]},
            "settings": {"cores": args.cores, "num_buffers": variants.NUM_BUFFERS,
                         "warm_up_and_window_seconds": plan.times,
                         "batch_size": {size: batch for size, (_, batch) in variants.SIZES.items()},
                         "latency_batch_size": variants.LATENCY_BATCH,
                         "payload_bytes": {size: variants.payload_bytes(size) for size in ALL},
                         "id_echo": variants.ID_ECHO},
            "rows": rows}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(data, indent=1) + "\n")
    print(report.text(data))


if __name__ == "__main__":
    main()
