// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rondo::bench {

// Blocking sockets on 127.0.0.1, as files. Each throws std::system_error.

struct Listener {
    int socket;
    std::uint16_t port;
};
/// With the options of rondo's server.
[[nodiscard]] Listener listen_raw();
/// With those of rondo's client.
[[nodiscard]] int connect_raw(std::uint16_t port);

/// Returns `result`, or throws what errno says about `what`.
int checked(int result, const char* what);

}  // namespace rondo::bench
