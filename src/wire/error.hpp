// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rondo::wire {

/// Why bytes cannot be read, or a spec cannot be put into bytes; `what` is a sentence with the
/// values. Bytes from a peer are never a caller's bug: they end up here.
struct WireError {
    enum class Code : std::uint8_t {
        zero_payload,      ///< a sample of 0 bytes: echo/1 could not tell one from two
        out_of_range,      ///< a spec beyond what the protocol can carry
        bad_magic,         ///< the peer speaks something else
        unknown_protocol,  ///< the peer speaks a protocol, or a version, that we do not
        limit_exceeded,    ///< the peer announces more than we are willing to read
        truncated,         ///< the stream ended in the middle
        bad_ack,           ///< a byte that is no ack
        excess_acks,       ///< more acks than samples
    };

    Code code{};
    std::string what;

    [[nodiscard]] const std::string& message() const noexcept { return what; }

    friend bool operator==(const WireError&, const WireError&) = default;
};

}  // namespace rondo::wire
