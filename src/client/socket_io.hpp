// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <sys/uio.h>

namespace rondo::detail {

/// What one system call on a socket did. `error` is an errno, 0 if none. The calls never block,
/// never raise SIGPIPE, and are repeated when a signal interrupts them.
struct CallResult {
    std::size_t bytes = 0;
    int error = 0;

    [[nodiscard]] bool would_block() const noexcept;
};

[[nodiscard]] CallResult send_some(int socket, std::span<const std::byte> bytes) noexcept;

/// At most IOV_MAX of `parts` are written.
[[nodiscard]] CallResult send_some(int socket, std::span<iovec> parts) noexcept;

// Bytes that wait in the kernel are out of every cache when they go out at last; on one machine it
// is the reader that sends them then, and its CPU time that it costs. What the kernel does not take
// stays in the caller's memory. docs/design/performance.md has what the two are worth.

/// The kernel takes few bytes that it cannot send yet. How much is on its way is not limited.
void limit_unsent(int socket) noexcept;

/// For a peer on this machine: nothing is on its way for long, so a small buffer is enough.
void limit_send_buffer(int socket) noexcept;

/// 0 bytes without an error: the peer closed.
[[nodiscard]] CallResult receive_some(int socket, std::span<std::byte> into) noexcept;

}  // namespace rondo::detail
