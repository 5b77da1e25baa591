#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real_runtimes_test.py PROBE DIRECTORY: CUDA's own libcudart is found, each by the right rung.

Both of NVIDIA's wheels are installed into a virtual environment in DIRECTORY, once. Exits with 77
(skipped) if that cannot be done. Without a usable device each is passed over, by its own account;
with one, the first is taken.
"""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

SKIPPED = 77
WHEELS = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime")
REFUSALS = r"cudaGetDeviceCount: (cudaErrorInsufficientDriver \(35\)|cudaErrorNoDevice \(100\))"


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def install(directory):
    """The site directory with both wheels, in a finished virtual environment or a new one."""
    environment = directory / "venv"
    done = directory / "done"
    if not done.exists():
        try:
            venv.create(environment, with_pip=True, clear=True)
        except Exception as error:  # noqa: BLE001: ensurepip is a package of its own on Debian
            skip(f"no virtual environment can be made: {error}")
        for wheel in WHEELS:
            try:
                pip = subprocess.run(
                    [environment / "bin/python", "-m", "pip", "install", "--no-deps", "--quiet",
                     "--disable-pip-version-check", "--retries", "1", "--timeout", "20", wheel],
                    capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                skip(f"pip takes too long to install {wheel}")
            if pip.returncode != 0:
                skip(f"pip cannot install {wheel}: {pip.stderr.strip().splitlines()[-1:]}")
        done.touch()
    return environment


def probe(program, arguments=(), **variables):
    """What the probe prints, in an environment without other variables of CUDA's."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("CUDA_", "CONDA_", "RONDO_", "VIRTUAL_ENV"))}
    environment |= {name: str(value) for name, value in variables.items()}
    # A driver of this machine has to be found; its runtimes may be, since the ones under test come
    # first. CUDA's allocations are its own business.
    environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    run = subprocess.run([program, "report", *arguments], env=environment, capture_output=True,
                         text=True, timeout=240)
    if run.returncode not in (0, 2):
        sys.exit(f"the probe failed with {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout


def pinned(output):
    """This machine has a device, so the first runtime that was reached has been taken."""
    return re.search("^pinned: ", output, re.MULTILINE) is not None


def expect(output, rung, library, outcome=REFUSALS):
    """The library was reached on that rung, and was taken or had an excuse."""
    line = rf"^{re.escape(rung)}: {re.escape(str(library))}: (taken: CUDA runtime|{outcome})"
    if not re.search(line, output, re.MULTILINE):
        sys.exit(f"expected a line\n  {line}\nbut the probe printed\n{output}")
    print(f"ok: {rung}: {library}")


def main():
    program, directory = sys.argv[1], Path(sys.argv[2])
    environment = install(directory)
    site = next((environment / "lib").glob("python3*/site-packages"))
    wheel_12 = site / "nvidia/cuda_runtime/lib/libcudart.so.12"
    wheel_13 = site / "nvidia/cu13/lib/libcudart.so.13"
    for wheel in (wheel_12, wheel_13):
        if not wheel.exists():
            sys.exit(f"{wheel} is not where the wheels have it: the search must change")

    # Both wheels, the newer first.
    output = probe(program, VIRTUAL_ENV=environment)
    expect(output, "installed-wheel search", wheel_13)
    if not pinned(output):
        expect(output, "installed-wheel search", wheel_12)
        if output.index(str(wheel_13)) > output.index(str(wheel_12)):
            sys.exit(f"the wheel of CUDA 12 came before that of CUDA 13:\n{output}")
        if "pip install nvidia-cuda-runtime-cu12" not in output:
            sys.exit(f"the message does not name the wheels:\n{output}")

    # Each by an override, and as one that the program has loaded.
    for wheel in (wheel_12, wheel_13):
        expect(probe(program, RONDO_CUDART=wheel), "override by RONDO_CUDART", wheel)
        expect(probe(program, [wheel]), "already-loaded scan", wheel)

    # By a soname that the dynamic linker finds; by variables that name a toolkit.
    expect(probe(program, LD_LIBRARY_PATH=wheel_12.parent), "soname load", "libcudart.so.12")
    if not pinned(output):
        expect(probe(program, CUDA_HOME=wheel_13.parent.parent), "CUDA_HOME", wheel_13)

    toolkit = Path("/usr/local/cuda/lib64/libcudart.so.13")
    if not toolkit.exists():
        print(f"this machine has no {toolkit}: the toolkit rung was not tried")
        return
    output = probe(program, RONDO_CUDART=toolkit)
    expect(output, "override by RONDO_CUDART", toolkit)
    output = probe(program)
    # The dynamic linker may know the same file, and then the soname rung comes first.
    if not pinned(output) and not re.search(r"^(soname load|toolkit directories): .*" + REFUSALS,
                                            output, re.MULTILINE):
        sys.exit(f"the toolkit of this machine was not found:\n{output}")
    print("ok: toolkit directories")


main()
