// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rondo::cli {

/// What the program's exit code says; `rondo --help` lists them.
enum ExitCode : int {
    exit_ok = 0,
    exit_failed = 1,        ///< the work was begun and failed
    exit_usage = 2,         ///< what was asked for makes no sense
    exit_interrupted = 130  ///< a second Ctrl-C
};

}  // namespace rondo::cli
