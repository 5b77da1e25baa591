// SPDX-License-Identifier: Apache-2.0
// What is in scope in the fragments of README.md and docs/: see scripts/docs_blocks.py.
#pragma once

#include <rondo/rondo.hpp>

#include <asio.hpp>

#include <chrono>
#include <iostream>
#include <string>
#include <utility>

using namespace std::chrono_literals;

/// How examples give up: prints the sentence of an error, and is a failed `int`.
inline int fail(const std::string& message) {
    std::cerr << message << '\n';
    return 1;
}
