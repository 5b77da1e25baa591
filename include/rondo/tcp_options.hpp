// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rondo {

/// Where and how a server listens. An aggregate for designated initialisers; every field has a
/// default that suits a learner and its actors on one machine.
struct TcpOptions {
    /// A numeric IPv4 or IPv6 address of this machine. `"::"` with `dual_stack` takes IPv4 too.
    /// Loopback by default: rondo/echo has no authentication, so opening it is a decision.
    std::string address = "127.0.0.1";

    std::uint16_t port = 0;  ///< 0: the system chooses; `listen` returns which

    bool dual_stack = true;  ///< for `"::"` only: also accept IPv4

    int backlog = 1'024;  ///< connections that the system queues while rondo accepts others

    /// Parts of samples that arrived without their rest may hold this many bytes together before
    /// further connections wait their turn. At least one sample fits whatever this says.
    std::uint64_t max_side_buffer_bytes = std::uint64_t{64} << 20;

    /// At close, how long connections get to take their last acknowledgements.
    std::chrono::milliseconds linger{1'000};
};

/// Where a server listens, as it really is.
struct Endpoint {
    std::string address;
    std::uint16_t port = 0;

    /// `127.0.0.1:50051`, `[::1]:50051`.
    [[nodiscard]] std::string text() const;
};

}  // namespace rondo
