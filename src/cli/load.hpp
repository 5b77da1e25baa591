// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rondo::cli {

struct LoadOptions {
    std::string spec;     ///< in text form
    std::string connect;  ///< HOST:PORT
    std::uint32_t actors = 1;
    std::uint64_t samples = 0;  ///< of each actor; 0: until Ctrl-C
    std::uint32_t window = 0;   ///< samples in flight for each actor; 0: the client's default
    bool json = false;
};

/// Actors that only load: each sends the same sample of random bytes again and again. Returns the
/// program's exit code.
[[nodiscard]] int run_load(const LoadOptions& options);

}  // namespace rondo::cli
