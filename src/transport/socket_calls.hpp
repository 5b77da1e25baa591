// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>
#include <system_error>

namespace rondo::detail {

/// What a non-blocking call on a socket came to.
struct IoResult {
    std::size_t bytes = 0;
    bool would_block = false;
    bool ended = false;       ///< the peer closed its side (reading only)
    std::error_code error{};  ///< anything else that went wrong

    [[nodiscard]] bool over() const noexcept { return ended || error; }
};

// Thin wrappers that retry EINTR and never raise SIGPIPE. They bypass Asio, which has no vectored
// read without an allocation and would wait where we only want to look.

[[nodiscard]] IoResult receive(int socket, std::span<std::byte> into) noexcept;
[[nodiscard]] IoResult send(int socket, std::span<const std::byte> bytes) noexcept;

/// Bytes that can be read now without waiting.
[[nodiscard]] std::size_t readable_bytes(int socket) noexcept;

/// True if no more bytes will come than `readable_bytes` says from now on: the peer closed its
/// side, or the connection broke.
[[nodiscard]] bool peer_finished(int socket) noexcept;

/// Fills every iovec. Precondition: that many bytes are readable now.
/// They are in the kernel and nobody else reads them, so this never waits: urgent data is inline
/// (`prepare_listener`), and neither FIN nor RST takes back what has been received. Modifies
/// `into`.
void read_exactly(int socket, std::span<iovec> into) noexcept;

/// Wakes readers only when `bytes` are readable, or the stream ended, or the kernel will hold no
/// more: it clamps the mark to half of the largest receive buffer.
void set_low_water_mark(int socket, std::size_t bytes) noexcept;

/// Options that accepted sockets inherit: no delay for acks, urgent data inline (a peer that sends
/// any could otherwise make `readable_bytes` promise what a read does not give), and keep-alive
/// that notices a vanished host within two minutes, since echo/1 has no heartbeats. Not set after
/// `accept`: urgent bytes that came before would be lost.
void prepare_listener(int socket) noexcept;

/// Keeps a socket out of the programs that this process starts: held there too, a connection that
/// we close would not end, nor would its port be free.
void close_on_exec(int socket) noexcept;

}  // namespace rondo::detail
