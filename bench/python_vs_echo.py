# SPDX-License-Identifier: Apache-2.0
"""Python to Python: the package rondo beside id-echo 0.2.1, through the same names.

    python_vs_echo.py --rondo PYTHON [--id-echo PYTHON] [--runs 5] [--out FILE]

PYTHON: an interpreter that can import the package (rondo, or echo); without the second one an
environment with id-echo is made. Over loopback a learner and four actors are processes;
`submit` and the learner's cost for a batch are measured in one process. `send_many` has 1,024
samples in flight, id-echo's clients then too. All runs are interleaved; ratios are taken round by
round. Of large samples, what no package can pass is measured too, as "limit": the raw sender and
receiver of bench/ingest in place of `send`, a plain copy into the ring in place of `submit`.
"""

import argparse
import importlib
import json
import mmap
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "ingest"))
import programs
import report
import run
import spec_text
import variants
from results import Spread

ACTORS = 4
SOURCES = 8
TIMES = (0.4, 1.0)  # warm-up and window, in seconds
SPECS = spec_text.read_specs()
# Samples in a batch, over loopback and in process.
BATCH = {"tiny": (1024, 1024), "k1": (256, 256), "k68": (32, 32), "large": (32, 8)}
NUM_BUFFERS = 3
MANY = 256  # samples of one send_many: 1 MiB at most
# Samples in flight: the default of both, and more than one send_many sends.
IN_FLIGHT = {"send": 32, "send_many": 1024}
# Metric, sizes, and the ratio of rondo to id-echo that is aimed at.
TARGETS = (
    ("send", ("tiny", "k1"), 4), ("send", ("k68", "large"), 2),
    ("send_many", ("tiny", "k1"), 20), ("submit", ("tiny", "k1", "k68", "large"), 3),
)
LIMITED = ("k68", "large")  # below, a call's own cost is what counts
LEARNER_NS = 8_000  # for a batch of 5 arrays


# --- in the interpreter of the package under test ---------------------------------------------

def tree(size, seed):
    from children import random_sample
    arrays = spec_text.parse(SPECS[size])
    # Interned, as literals in an actor's code are.
    return {sys.intern(array.path): value
            for array, value in zip(arrays, random_sample(arrays, seed))}


def learn(package, size):
    """A learner that gives each batch back at once."""
    from children import Driver
    batch_size = BATCH[size][0]
    server = package.Server(tree(size, 0), batch_size, transport=package.TcpTransport(port=0),
                            num_buffers=NUM_BUFFERS)
    server.start()
    driver = Driver(server.port)
    samples = 0
    while True:
        server.sample()
        samples += batch_size
        if driver.wants_reading():
            driver.print_reading(samples)


def actors(package, size, call, port):
    from children import run_load
    samples = [tree(size, seed) for seed in range(SOURCES)]
    many = [samples[i % SOURCES] for i in range(max(1, min(MANY, 2 ** 20 // size_of(size))))]

    def connect(*_):
        return package.TcpClient("127.0.0.1", port, samples[0],
                                 max_inflight_msgs=IN_FLIGHT[call])

    def act(client):
        while True:
            if call == "send_many" and package.__name__ == "rondo":
                client.send_many(many)
            else:
                for sample in samples:
                    client.send(sample)

    run_load(ACTORS, ACTORS, connect, act)


def in_process(package, size, seconds):
    """Submits as many batches as fit, takes them, and so on; the two are timed apart. id-echo holds
    the last batch until the next `sample`, so one buffer is left free."""
    batch_size = BATCH[size][1]
    server = package.Server(tree(size, 0), batch_size, num_buffers=NUM_BUFFERS)
    samples = [tree(size, seed) for seed in range(SOURCES)]
    batches = NUM_BUFFERS - 1
    submits = [samples[i % SOURCES] for i in range(batches * batch_size)]
    submitting, taking = [], []
    end = time.monotonic() + seconds
    while len(taking) < 3 or time.monotonic() < end:
        begin = time.perf_counter_ns()
        for sample in submits:
            server.submit(sample)
        between = time.perf_counter_ns()
        for _ in range(batches):
            server.sample()
        taking.append((time.perf_counter_ns() - between) / batches)
        submitting.append((between - begin) / len(submits))
    median = len(taking) // 2
    print(json.dumps({"submit": 1e9 / sorted(submitting)[median],
                      "learner_ns": sorted(taking)[median]}))


def copy_only(size, seconds):
    """What `submit` cannot do without: one copy of the bytes, into a ring of the same size."""
    length, slots = size_of(size), NUM_BUFFERS * BATCH[size][1]
    samples = [random.randbytes(length) for _ in range(SOURCES)]
    memory = mmap.mmap(-1, length * slots)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory[:] = b"\1" * len(memory)  # its pages are there
    ring = [memoryview(memory)[row * length:][:length] for row in range(slots)]
    rounds = []
    end = time.monotonic() + seconds
    while len(rounds) < 3 or time.monotonic() < end:
        begin = time.perf_counter_ns()
        for row, slot in enumerate(ring):
            slot[:] = samples[row % SOURCES]
        rounds.append((time.perf_counter_ns() - begin) / slots)
    print(json.dumps({"submit": 1e9 / sorted(rounds)[len(rounds) // 2]}))


# --- the driver -------------------------------------------------------------------------------

def size_of(size):
    return spec_text.payload_bytes(spec_text.parse(SPECS[size]))


def command(python, package, *rest):
    return [python, __file__, "--package", package, *rest]


def measure_once(python, package, size, cores):
    """Metric -> value; samples per second, but `learner_ns`."""
    module = {"rondo": "rondo", "id-echo": "echo"}[package]
    values = {}
    for call in IN_FLIGHT:
        try:
            result = programs.measure(command(python, module, "--learn", size),
                                      command(python, module, "--act", size, "--call", call),
                                      cores, TIMES)
            values[call] = result["samples_per_second"]
        except programs.Hung as hung:
            print(f"{package}, {call} hung: {hung}", file=sys.stderr)
    return values | output_of(command(python, module, "--in-process", size))


def limit_once(ingest, size, cores):
    """The same of the machine; the raw receiver's faster way."""
    tools = variants.Tools(ingest, None)
    raw = [programs.measure(*variants.commands(way, size, ACTORS, None, tools), cores, TIMES)
           for way in ("raw recv", "raw readv")]
    copied = output_of([sys.executable, __file__, "--copy-only", size])
    return copied | {"send": max(result["samples_per_second"] for result in raw)}


def output_of(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def spread(rows, package, metric):
    values = [row[metric] for row in rows[package] if metric in row]
    return Spread.of(values) if values else None


def ratio(rows, metric, over="rondo", under="id-echo"):
    """id-echo has no send_many: its send with as many in flight is what there is to compare with.
    """
    ratios = [ours[metric] / theirs[metric]
              for ours, theirs in zip(rows.get(over, []), rows.get(under, []))
              if metric in ours and metric in theirs]
    return Spread.of(ratios) if ratios else None


def text(data):
    lines = []
    for size, rows in data["rows"].items():
        for package in rows:
            for metric in ("send", "send_many", "submit", "learner_ns"):
                if value := spread(rows, package, metric):
                    unit = "ns a batch" if metric == "learner_ns" else "samples/s"
                    lines.append([report.label(size), package, metric, report.spread(value), unit])
    table = report.table(["sample", "package", "what", "median [least to most]", ""], lines)
    return f"{table}\n\n{target_table(data)}"


def target_table(data):
    lines = []
    for metric, sizes, limit in TARGETS:
        for size in sizes:
            rows = data["rows"].get(size, {})
            if measured := ratio(rows, metric):
                lines.append([f"{metric}, rondo / id-echo", report.label(size),
                              report.spread(measured), f">= {limit}",
                              "yes" if measured.median >= limit else "NO"])
            if measured := ratio(rows, metric, over="limit"):
                lines.append([f"{metric}, limit / id-echo", report.label(size),
                              report.spread(measured), "", ""])
    learner = spread(data["rows"].get("k1", {"rondo": []}), "rondo", "learner_ns")
    if learner:
        lines.append(["learner's cost of a batch of 5 arrays", report.label("k1"),
                      f"{report.spread(learner)} ns", f"<= {LEARNER_NS:,} ns",
                      "yes" if learner.median <= LEARNER_NS else "NO"])
    return report.table(["what", "sample", "measured", "target", "met"], lines)


def drive(args):
    pythons = {"rondo": args.rondo, "id-echo": args.id_echo or run.id_echo_python(args.venv)}
    pythons = {package: python for package, python in pythons.items() if python}
    rows = {size: {package: [] for package in pythons} for size in BATCH}
    for size in LIMITED:
        rows[size]["limit"] = []
    cores = run.cores_of("shared")
    for turn in range(args.runs):
        for size in BATCH:
            for package, python in pythons.items():
                print(f"round {turn + 1}: {report.label(size)}, {package}", file=sys.stderr)
                rows[size][package].append(measure_once(python, package, size, cores))
            if size in LIMITED:
                rows[size]["limit"].append(
                    limit_once(str(args.build / "bench" / "ingest"), size, cores))
    data = {"machine": run.machine(args.build),
            "settings": {"actors": ACTORS, "batch_size": BATCH, "num_buffers": NUM_BUFFERS,
                         "id_echo": "defaults"}, "rows": rows}
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(data, indent=1) + "\n")
    print(text(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", metavar="PYTHON")
    parser.add_argument("--id-echo", metavar="PYTHON")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=run.ROOT / "build" / "release")
    parser.add_argument("--venv", type=pathlib.Path,
                        default=run.ROOT / "build" / "interop" / "venv")
    for hidden in ("--package", "--learn", "--act", "--call", "--in-process", "--copy-only"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.copy_only:
        return copy_only(args.copy_only, 0.5)
    if not args.package:
        return drive(args)
    package = importlib.import_module(args.package)
    if args.learn:
        learn(package, args.learn)
    elif args.act:
        actors(package, args.act, args.call, args.port)
    else:
        in_process(package, args.in_process, 0.5)


if __name__ == "__main__":
    main()
