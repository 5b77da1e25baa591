// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rondo::cli {

struct ServeOptions {
    std::string spec;  ///< in text form
    std::uint64_t batch_size = 32;
    std::uint64_t buffers = 3;
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string protocol = "echo/1";
    std::uint64_t batches = 0;     ///< then it ends; 0: at Ctrl-C only
    std::uint32_t io_threads = 0;  ///< 0: half of the usable cores, at most 4
    bool json = false;
};

/// A learner that takes batches and counts them. Returns the program's exit code.
[[nodiscard]] int run_serve(const ServeOptions& options);

}  // namespace rondo::cli
