// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::cli {

/// A host's name or numeric address, and a TCP port.
struct HostPort {
    std::string host;
    std::uint16_t port = 0;

    friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// Reads `learner:50051`, `127.0.0.1:50051` or `[::1]:50051`.
/// Errors: a sentence that quotes `text` and says what was expected.
[[nodiscard]] tl::expected<HostPort, std::string> parse_host_port(std::string_view text);

}  // namespace rondo::cli
