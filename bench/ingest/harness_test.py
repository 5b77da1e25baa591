# SPDX-License-Identifier: Apache-2.0
"""The benchmark works, whatever the times: `harness_test.py INGEST`, the C++ programs."""

import io
import pathlib
import sys
import unittest
from contextlib import redirect_stderr
from unittest import mock

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent))
import draw
import programs
import python_vs_echo
import report
import run
import variants
from results import Results
from targets import verdicts

TOOLS = variants.Tools(sys.argv.pop(1), None)
CORES = run.cores_of("shared")
programs.ANSWER_SECONDS = 120  # whatever else this machine does


def quietly(function, *arguments):
    with redirect_stderr(io.StringIO()):
        return function(*arguments)


def data_of(rows):
    """A file of run.py with these rows: (size, connections, variant, values of the rounds)."""
    return {
        "machine": {"cpu": "c", "cores": 2, "kernel": "k", "compiler": "g++", "commit": "0",
                    "date": "d", "load_before": 0.0, "load_after": 0.0},
        "settings": {"cores": "shared", "num_buffers": 3, "batch_size": {"tiny": 1024, "k68": 32},
                     "payload_bytes": {"tiny": 20, "k68": 67_616}},
        "rows": [{"kind": "throughput", "size": size, "connections": connections,
                  "variant": variant, "hung": values.count(None),
                  "runs": [{"round": turn, "samples_per_second": value, "cpu_ns_per_sample": value}
                           for turn, value in enumerate(values) if value is not None]}
                 for size, connections, variant, values in rows]}


class Specs(unittest.TestCase):
    def test_every_size_that_is_measured_has_its_bytes(self):
        sizes = {size: variants.payload_bytes(size) for size in variants.SIZES}
        self.assertEqual(sizes, {"tiny": 20, "k1": 1_024, "k68": 67_616, "k335": 335_096,
                                 "large": 1_020_388, "m2": 2_040_768})
        self.assertEqual([len(variants.SPECS[size].split("],")) for size in sizes],
                         [2, 5, 44, 44, 44, 44])


class Runs(unittest.TestCase):
    def test_a_run_of_every_program_gives_rows_a_table_and_pictures(self):
        rows = quietly(run.run, run.PLANS["smoke"], CORES, TOOLS)
        self.assertEqual({row["variant"] for row in rows},
                         {"rondo", "rondo, one array", "raw recv", "raw readv"})
        for row in rows:
            self.assertEqual(len(row["runs"]), 1, row)
            for metric in ("samples_per_second", "cpu_ns_per_sample", "resident_bytes"):
                self.assertGreater(row["runs"][0][metric], 0, row)
        data = data_of([]) | {"rows": rows}
        data["settings"]["payload_bytes"]["large"] = 1_020_388
        self.assertIn("rondo, one array", report.text(data))
        self.assertIn("throughput", draw.pictures(data))

    def test_paced_samples_carry_the_time_of_their_sending(self):
        commands = variants.commands("rondo", "tiny", 2, 40_000, TOOLS)
        result = programs.measure(*commands, CORES, (0.05, 0.1))
        self.assertGreater(result["ages"]["count"], 0)
        self.assertEqual(result["ages"]["count"] % variants.LATENCY_BATCH, 0)
        self.assertLessEqual(result["youngest"]["p50_ns"], result["ages"]["p50_ns"])
        self.assertLess(result["ages"]["p99_ns"], 300e9)  # the same clock on both sides

    def test_rondo_is_given_the_load_that_id_echo_took_in_the_same_round(self):
        def runs(*rates):
            return {"runs": [{"round": turn, "samples_per_second": rate}
                             for turn, rate in enumerate(rates) if rate is not None]}
        id_echo = run.Cell("latency", "tiny", 8, "id-echo")
        rondo = id_echo._replace(variant="rondo")
        results = {id_echo._replace(kind="throughput"): runs(90, None, 110, 100),
                   id_echo: runs(49, 25, None)}
        self.assertEqual(run.rate_of(id_echo, 1, results), 50)
        self.assertEqual([run.rate_of(rondo, turn, results) for turn in range(3)], [49, 25, None])

    def test_a_server_that_stops_answering_is_killed_and_counted(self):
        silent = [sys.executable, "-c", "import time; print('{\"port\": 1}', flush=True);"
                  "time.sleep(1000)"]
        idle = [sys.executable, "-c", "print('ready', flush=True); input(); input()"]
        with mock.patch.object(programs, "ANSWER_SECONDS", 2):
            with self.assertRaises(programs.Hung):
                programs.measure(silent, idle, CORES, (0, 0))

    def test_a_load_that_fails_is_no_result(self):
        server, _ = variants.commands("rondo", "tiny", 1, None, TOOLS)
        failing = [sys.executable, "-c", "import sys; sys.exit('no')"]
        with self.assertRaises(programs.Hung) as raised:
            programs.measure(server, failing, CORES, (0, 0))
        self.assertIn("no", str(raised.exception))


class Ratios(unittest.TestCase):
    def test_a_ratio_is_taken_round_by_round_and_without_the_rounds_that_hung(self):
        results = Results(data_of([("tiny", 8, "rondo", [100, 400, 900]),
                                   ("tiny", 8, "id-echo", [10, None, 30])]))
        ratio = results.ratio(("samples_per_second", "tiny", 8, "rondo"),
                              ("samples_per_second", "tiny", 8, "id-echo"))
        self.assertEqual(ratio, (20, 10, 30))

    def test_the_raw_limit_is_the_faster_of_its_two_ways(self):
        results = Results(data_of([("k68", 8, "rondo", [90]), ("k68", 8, "raw recv", [80]),
                                   ("k68", 8, "raw readv", [100])]))
        share = next(v for v in verdicts(results) if v.what == "share of the raw limit")
        self.assertEqual(share.measured.median, 0.9)
        self.assertTrue(share.met)
        results.rows["throughput", "k68", 8, "raw readv"]["runs"][0]["cpu_ns_per_sample"] = 1
        self.assertEqual(results.spread("cpu_ns_per_sample", "k68", 8, "raw").median, 1)

    def test_what_was_not_run_is_absent(self):
        data = data_of([("tiny", 8, "rondo", [1.0])])
        self.assertEqual(verdicts(Results(data)), [])
        self.assertNotIn("id-echo  ", report.text(data))
        self.assertEqual(set(draw.pictures(data)), {"throughput", "cpu"})

    def test_send_many_is_compared_with_id_echo_with_as_many_in_flight(self):
        rows = {"k1": {"rondo": [{"send": 80.0, "send_many": 230.0, "learner_ns": 9_000.0}],
                       "id-echo": [{"send": 20.0, "send_many": 10.0}]}}
        table = python_vs_echo.text({"rows": rows})
        self.assertRegex(table, r"send, rondo / id-echo +1 KB +4 .* >= 4 +yes")
        self.assertRegex(table, r"send_many, rondo / id-echo +1 KB +23 .* >= 20 +yes")
        self.assertRegex(table, r"learner's cost .* <= 8,000 ns +NO")
        self.assertNotIn("submit", table)

    def test_from_python_the_limit_stands_beside_what_it_limits(self):
        rows = {"large": {"rondo": [{"submit": 28.0}], "id-echo": [{"submit": 10.0}],
                          "limit": [{"submit": 29.0, "send": 5.0}]}}
        table = python_vs_echo.text({"rows": rows})
        self.assertRegex(table, r"submit, rondo / id-echo +1 MB +2.8 .* >= 3 +NO")
        self.assertRegex(table, r"submit, limit / id-echo +1 MB +2.9 ")
        self.assertNotIn("send, limit", table)

    def test_from_python_the_limit_is_what_raw_programs_and_plain_copies_reach(self):
        with mock.patch.object(python_vs_echo, "TIMES", (0.05, 0.1)):
            limit = python_vs_echo.limit_once(TOOLS.ingest, "large", CORES)
        self.assertEqual(set(limit), {"send", "submit"})
        self.assertGreater(min(limit.values()), 0)

    def test_a_target_is_missed_on_either_side_of_its_limit(self):
        results = Results(data_of([("tiny", 8, "rondo", [10.0]), ("tiny", 8, "id-echo", [1.0]),
                                   ("tiny", 8, "rondo to id-echo", [20.0])]))
        self.assertEqual([verdict.met for verdict in verdicts(results)], [False, False])


if __name__ == "__main__":
    unittest.main()
