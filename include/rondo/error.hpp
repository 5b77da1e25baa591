// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

/// Why samples were not inserted. A full ring is no error: `try_insert` returns false, the others
/// wait.
struct InsertError {
    enum class Code : std::uint8_t {
        closed,     ///< the server was closed, before or during the wait
        timed_out,  ///< the deadline passed while the ring was full
        cancelled,
        mismatch,  ///< the arrays are not what the server's spec says; nothing was inserted
    };

    Code code{};
    std::uint64_t inserted = 0;  ///< how many of the samples are in the ring all the same
    std::string detail;          ///< with `mismatch`: what was expected and what came

    [[nodiscard]] std::string message() const;
};

/// Why no batch came.
struct SampleError {
    enum class Code : std::uint8_t {
        closed,  ///< the server was closed, and every batch that it had has been leased
        timed_out,
        cancelled,
        next_leased,  ///< the next batch needs a buffer that is leased: see `WhenNextLeased`
    };

    Code code{};

    [[nodiscard]] std::string message() const;
};

/// Why a transport could not start.
struct ListenError {
    enum class Code : std::uint8_t {
        bad_address,
        in_use,
        no_permission,
        not_available,  ///< the address is none of this machine's
        spec_unsuited,  ///< the protocol cannot carry this spec
        invalid_option,
        closed,  ///< the server was closed
        system,  ///< anything else the system said
    };

    Code code{};
    std::string what;

    [[nodiscard]] const std::string& message() const noexcept { return what; }
};

/// Why a client could not connect.
struct ConnectError {
    enum class Code : std::uint8_t {
        resolve,  ///< the host name is unknown
        refused,  ///< nobody listens there
        timed_out,
        cancelled,
        spec_mismatch,  ///< the server's spec differs; `what` shows both sides
        protocol,       ///< the peer is no rondo or echo server
        cut_off,        ///< the peer closed before its greeting was complete
        spec_unsuited,  ///< the protocol cannot carry this spec
        invalid_option,
        system,
    };

    Code code{};
    std::string what;

    [[nodiscard]] const std::string& message() const noexcept { return what; }
};

/// Why samples could not be sent, or their acknowledgement not be awaited.
struct SendError {
    enum class Code : std::uint8_t {
        connection_closed,
        timed_out,
        cancelled,
        mismatch,  ///< the arrays are not what the client's spec says; nothing was sent
    };

    Code code{};
    std::uint64_t sent = 0;            ///< samples of this call that were taken all the same
    std::uint64_t unacknowledged = 0;  ///< samples sent by this client that no ack came for
    std::string detail;                ///< e.g. "the peer closed the connection"

    [[nodiscard]] std::string message() const;
};

}  // namespace rondo
