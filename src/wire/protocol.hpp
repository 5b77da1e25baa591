// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo::wire {

/// What two peers speak. In every protocol the server speaks first, and the first `magic_bytes`
/// bytes choose, so a client needs no setting.
///
/// A further protocol is an enumerator, a line in each function here, a branch where
/// `GreetingParser` has read the magic, and framing of its own beside `PayloadFramer`.
enum class Protocol : std::uint8_t {
    echo1,  ///< id-echo's
};

inline constexpr std::size_t magic_bytes = 4;

/// The magic that a later protocol has reserved: known already, so that it can be named in errors.
inline constexpr std::string_view rondo_magic = "RNDO";

[[nodiscard]] constexpr std::string_view magic(Protocol protocol) noexcept {
    switch (protocol) {
        case Protocol::echo1:
            return "ECHO";
    }
    return {};
}

/// `"echo/1"`: what `parse_protocol` reads.
[[nodiscard]] constexpr std::string_view to_text(Protocol protocol) noexcept {
    switch (protocol) {
        case Protocol::echo1:
            return "echo/1";
    }
    return {};
}

[[nodiscard]] constexpr std::optional<Protocol> parse_protocol(std::string_view text) noexcept {
    if (text == to_text(Protocol::echo1)) return Protocol::echo1;
    return std::nullopt;
}

}  // namespace rondo::wire
