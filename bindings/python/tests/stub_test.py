# SPDX-License-Identifier: Apache-2.0
"""The stubs and annotations, as type checkers of programs that use rondo see them."""

import pathlib
import subprocess
import sys

PROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"
ALLOWED = pathlib.Path(__file__).with_name("stubtest_allowlist.txt")


def mypy(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, capture_output=True, text=True
    )


def test_the_package_is_strictly_typed(tmp_path):
    result = mypy("mypy", "--config-file", PROJECT, "--cache-dir", tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_stubs_say_what_the_module_has(tmp_path):
    result = mypy(
        "mypy.stubtest", "rondo", "--allowlist", ALLOWED, "--ignore-unused-allowlist", cwd=tmp_path
    )
    assert result.returncode == 0, result.stdout + result.stderr


PROGRAM = """
import numpy as np
import rondo

example = {"obs": np.zeros(4, np.float32)}
with rondo.Server(example, 4, rondo.TcpTransport(0, host="127.0.0.1")) as server:
    server.start()
    with rondo.TcpClient("127.0.0.1", server.port, example) as client:
        client.send(example, timeout=1.0)
        client.wait()
    sample = server.sample(timeout=1.0)
    if sample is not None:
        print(sample.info.store_size)
        sample.release()
    for other in server.dataset_iter(copy=True):
        print(other.batch)
"""


def test_a_program_under_strict_checks_uses_it(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    result = mypy("mypy", "--strict", "program.py", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
