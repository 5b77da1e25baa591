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

/// Leaves what the peer has no room for with us: the kernel takes few bytes that it cannot send
/// yet. It would take megabytes, which are out of every cache by the time that they are sent, on
/// loopback by the reader, in whose CPU time they are counted. What is on its way to the peer is
/// not limited.
void limit_unsent(int socket) noexcept;

/// 0 bytes without an error: the peer closed.
[[nodiscard]] CallResult receive_some(int socket, std::span<std::byte> into) noexcept;

}  // namespace rondo::detail
