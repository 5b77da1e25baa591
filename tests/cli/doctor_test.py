# SPDX-License-Identifier: Apache-2.0
"""`rondo doctor` from outside, over stand-ins for CUDA's libraries and over the real ones:
`doctor_test.py RONDO STUB_CUDART STUB_CUDART_PARTIAL STUB_CUDA [unittest options]`."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RONDO = STUB_CUDART = STUB_CUDART_PARTIAL = STUB_CUDA = ""  # set by main
TOOLKIT = Path("/usr/local/cuda/lib64/libcudart.so.13")
RUNGS = [
    "override", "already-loaded scan", "installed-wheel search", "soname load", "CONDA_PREFIX",
    "CUDA_PATH", "CUDA_HOME", "toolkit directories", "driver API",
]
FIELDS = [
    "event", "command", "version", "works", "attempts", "rung", "library", "api", "api_version",
    "driver_version", "devices", "device", "device_reason", "verified_bytes", "error",
]
ERROR_FIELDS = ["reason", "message", "call", "symbol", "code"]


class Machine:
    """A directory for stand-ins, and an environment that points nowhere else."""

    def __init__(self, test):
        scratch = tempfile.TemporaryDirectory(prefix="rondo-doctor-")
        test.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name).resolve()
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("CUDA_", "CONDA_", "RONDO_", "VIRTUAL_ENV", "LD_"))
        } | {"HOME": str(self.path / "home")}

    def install(self, stub, name):
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stub, target)
        return target

    def doctor(self, *arguments, **variables):
        """Runs to the end; returns (exit code, stdout, stderr)."""
        environment = self.environment | {name: str(value) for name, value in variables.items()}
        done = subprocess.run([RONDO, "doctor", *map(str, arguments)], env=environment,
                              capture_output=True, text=True, timeout=240)
        return done.returncode, done.stdout, done.stderr

    def doctor_json(self, *arguments, **variables):
        """The same with --json; returns (exit code, the report). Every field is always there."""
        code, out, err = self.doctor("--json", *arguments, **variables)
        assert out.count("\n") == 1, out + err
        report = json.loads(out)
        assert list(report) == FIELDS, out
        assert report["event"] == "report" and report["command"] == "doctor", out
        assert report["works"] == (code == 0) == (report["error"] is None), out
        assert report["error"] is None or list(report["error"]) == ERROR_FIELDS, out
        return code, report


def ladder_of(report):
    return ["{}. {rung}: {candidate}: {outcome}".format(number, **attempt)
            for number, attempt in enumerate(report["attempts"], 1)]


class Works(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(self)
        self.library = self.machine.install(
            STUB_CUDART, "site/nvidia/cu13/lib/libcudart.so.13")
        self.site = ("--site-directory", self.machine.path / "nothing here",
                     "--site-directory", self.machine.path / "site")

    def test_text_has_the_ladder_what_was_taken_the_device_and_the_verdict(self):
        code, out, err = self.machine.doctor(*self.site)
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(out, "".join((
            r"\A1\. override: \(none\): neither ServerOptions::cudart nor RONDO_CUDART is set\n",
            r"2\. already-loaded scan: \(none\): no libcudart is loaded in this process\n",
            rf"3\. installed-wheel search: {self.library}: ",
            r"taken: CUDA runtime 12\.4, sees 1 device\n",
            rf"taken         installed-wheel search, {self.library}\n",
            r"versions      CUDA runtime 12\.4, driver of an unknown version, rondo \d+\.\d+\.\d+\n",
            r"devices       0: name not known\n",
            r"device        0: the first: no device has an active context yet\n",
            r"registration  \d+,\d+ bytes registered and verified\n",
            r"verdict       pinning works here\n\Z")))

    def test_json_says_the_same(self):
        _, out, _ = self.machine.doctor(*self.site)
        code, report = self.machine.doctor_json(*self.site)
        self.assertEqual(code, 0)
        self.assertEqual(ladder_of(report), out.splitlines()[:3])
        self.assertEqual(report["rung"], "installed-wheel search")
        self.assertEqual(report["library"], str(self.library))
        self.assertEqual((report["api"], report["api_version"]), ("CUDA runtime", "12.4"))
        self.assertIsNone(report["driver_version"])
        self.assertEqual(report["devices"], [{"ordinal": 0, "name": None, "active": False}])
        self.assertEqual(report["device"], 0)
        self.assertEqual(report["verified_bytes"] % 4096, 0)
        self.assertGreater(report["verified_bytes"], 0)

    def test_every_region_is_verified_and_given_back(self):
        calls = self.machine.path / "calls"
        self.assertEqual(self.machine.doctor(*self.site, RONDO_STUB_CALLS=calls)[0], 0)
        names = [line.split()[0] for line in calls.read_text().splitlines()]
        self.assertEqual(names.count("cudaHostRegister"), 2)
        self.assertEqual(names.count("cudaHostGetFlags"), 4)
        self.assertEqual(names.count("cudaHostUnregister"), 2)

    def test_devices_have_names_where_the_driver_is_loaded_and_one_may_be_chosen(self):
        driver = self.machine.install(STUB_CUDA, "driver/libcuda.so.1")
        loaded = {"LD_LIBRARY_PATH": driver.parent, "LD_PRELOAD": driver,
                  "ASAN_OPTIONS": "verify_asan_link_order=0",
                  "RONDO_STUB_DEVICES": 3, "RONDO_STUB_ACTIVE": 2}
        code, report = self.machine.doctor_json(*self.site, **loaded)
        self.assertEqual(code, 0)
        self.assertEqual(report["driver_version"], "12.8")
        self.assertEqual(report["devices"], [
            {"ordinal": 0, "name": "Stub 0", "active": False},
            {"ordinal": 1, "name": "Stub 1", "active": False},
            {"ordinal": 2, "name": "Stub 2", "active": True}])
        self.assertEqual(report["device"], 2)
        self.assertEqual(report["device_reason"], "the only device with an active context")

        code, out, _ = self.machine.doctor(*self.site, "--pin-device", 1, **loaded)
        self.assertEqual(code, 0)
        self.assertIn("devices       0: Stub 0\n              1: Stub 1\n"
                      "              2: Stub 2, has a context\n"
                      "device        1: ServerOptions::pin_device\n", out)

    def test_the_driver_alone_will_do(self):
        driver = self.machine.install(STUB_CUDA, "libcuda.so.1")
        code, report = self.machine.doctor_json("--cudart", driver)
        self.assertEqual(code, 0)
        self.assertEqual((report["api"], report["api_version"]), ("CUDA driver", "12.8"))
        self.assertEqual(report["rung"], "override by ServerOptions::cudart")
        code, report = self.machine.doctor_json(RONDO_CUDART=driver)
        self.assertEqual(code, 0)
        self.assertEqual(report["rung"], "override by RONDO_CUDART")


class DoesNotWork(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(self)
        self.library = self.machine.install(STUB_CUDART, "libcudart.so.13")
        self.override = ("--cudart", self.library)

    def test_a_registration_that_fails(self):
        for failing, call, code, symbol in (
            ("cudaHostRegister:2:712", "cudaHostRegister", 712,
             "cudaErrorHostMemoryAlreadyRegistered"),
            ("cudaHostGetFlags:4:1", "cudaHostGetFlags", 1, "cudaErrorInvalidValue"),
            ("cudaFree:1:2", "cudaFree(nullptr)", 2, "cudaErrorMemoryAllocation"),
        ):
            with self.subTest(failing=failing):
                exit_code, report = self.machine.doctor_json(*self.override,
                                                             RONDO_STUB_FAIL=failing)
                self.assertEqual(exit_code, 1)
                error = report["error"]
                self.assertEqual(error["reason"], "registration")
                self.assertEqual((error["call"], error["code"]), (call, code))
                self.assertEqual(error["symbol"], symbol)
                self.assertEqual(report["verified_bytes"], 0)
                self.assertEqual(report["device"], 0)

                exit_code, out, err = self.machine.doctor(*self.override, RONDO_STUB_FAIL=failing)
                self.assertEqual((exit_code, err), (1, ""))
                self.assertNotIn("registered and verified", out)
                self.assertEqual(out.splitlines()[-1],
                                 "verdict       pinning does not work here. " + error["message"])

    def test_no_device_no_library_and_no_symbol(self):
        partial = self.machine.install(STUB_CUDART_PARTIAL, "partial/libcudart.so.12")
        for arguments, variables, outcome in (
            (self.override, {"RONDO_STUB_DEVICES": 0}, "it sees no device"),
            (("--cudart", partial), {}, "it lacks cudaHostGetFlags"),
            (("--cudart", "/no/such/libcudart.so"), {}, "cannot open shared object file"),
        ):
            with self.subTest(outcome=outcome):
                code, report = self.machine.doctor_json(*arguments, **variables)
                self.assertEqual(code, 1)
                self.assertEqual(report["error"]["reason"], "runtime_unavailable")
                self.assertEqual(len(report["attempts"]), 1)
                self.assertIn(outcome, report["attempts"][0]["outcome"])
                for field in ("rung", "library", "api", "device", "device_reason"):
                    self.assertIsNone(report[field])
                self.assertEqual(report["devices"], [])

                code, out, err = self.machine.doctor(*arguments, **variables)
                self.assertEqual((code, err), (1, ""))
                ladder, verdict = out.splitlines()
                self.assertEqual([ladder], ladder_of(report))
                self.assertRegex(verdict, r"^verdict       pinning does not work here\. No other "
                                          r"place is searched while .* RONDO_CUDART is set")

    def test_a_device_that_does_not_exist_is_wrong_usage(self):
        code, report = self.machine.doctor_json(*self.override, "--pin-device", 1)
        self.assertEqual(code, 2)
        self.assertEqual(report["error"]["reason"], "invalid_options")
        code, out, err = self.machine.doctor(*self.override, "--pin-device", -1)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("--pin-device", err)

    def test_every_rung_is_listed_in_the_order_probed(self):
        # The stand-in hides a driver of this machine, so that its runtimes see no device either.
        driver = self.machine.install(STUB_CUDA, "driver/libcuda.so.1")
        self.machine.install(STUB_CUDART, "site/nvidia/cuda_runtime/lib/libcudart.so.12")
        arguments = ("--site-directory", self.machine.path / "site")
        variables = {"RONDO_STUB_DEVICES": 0, "LD_LIBRARY_PATH": driver.parent,
                     "CUDA_PATH": "/nowhere/cuda"}
        code, report = self.machine.doctor_json(*arguments, **variables)
        self.assertEqual(code, 1)
        self.assertEqual([rung for rung, _ in
                          itertools.groupby(attempt["rung"] for attempt in report["attempts"])],
                         RUNGS)
        last = report["attempts"][-1]
        self.assertEqual((last["candidate"], last["outcome"]), ("libcuda.so.1", "it sees no device"))
        empty = {a["rung"]: a["outcome"] for a in report["attempts"] if a["candidate"] == "(none)"}
        self.assertEqual(empty["CUDA_PATH"],
                         "no libcudart in the library directories of /nowhere/cuda")
        self.assertEqual(empty["CUDA_HOME"], "not set")

        code, out, _ = self.machine.doctor(*arguments, **variables)
        self.assertEqual(code, 1)
        *ladder, verdict = out.splitlines()
        self.assertEqual(ladder, ladder_of(report))
        self.assertIn("pip install nvidia-cuda-runtime-cu12", verdict)


class RealRuntime(unittest.TestCase):
    def test_it_works_or_says_what_the_driver_is_short_of(self):
        if not TOOLKIT.exists():
            self.skipTest(f"this machine has no {TOOLKIT}")
        code, report = Machine(self).doctor_json("--cudart", TOOLKIT, ASAN_OPTIONS="detect_leaks=0")
        if code == 0:
            self.assertGreater(report["verified_bytes"], 0)
            return
        self.assertEqual(code, 1)
        self.assertRegex(report["attempts"][0]["outcome"],
                         r"cudaErrorInsufficientDriver \(35\)|cudaErrorNoDevice \(100\)")


def main():
    global RONDO, STUB_CUDART, STUB_CUDART_PARTIAL, STUB_CUDA
    RONDO, STUB_CUDART, STUB_CUDART_PARTIAL, STUB_CUDA = map(os.path.abspath, sys.argv[1:5])
    del sys.argv[1:5]
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
