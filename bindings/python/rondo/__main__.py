# SPDX-License-Identifier: Apache-2.0
"""`python -m rondo`: the commands of the executable, which lies inside this package."""

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).with_name("bin") / "rondo"
    try:
        os.execv(program, ["rondo", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"python -m rondo: cannot run {program}: {error.strerror}")


if __name__ == "__main__":
    main()
