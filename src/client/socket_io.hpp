// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <sys/uio.h>

namespace rondo::detail {

/// What one system call on a socket did. `error` is an errno, 0 if none. The calls never block,
/// never raise SIGPIPE, and are repeated when a signal interrupts them.
struct IoResult {
    std::size_t bytes = 0;
    int error = 0;

    [[nodiscard]] bool would_block() const noexcept;
};

[[nodiscard]] IoResult send_some(int socket, std::span<const std::byte> bytes) noexcept;

/// At most IOV_MAX of `parts` are written.
[[nodiscard]] IoResult send_some(int socket, std::span<iovec> parts) noexcept;

/// 0 bytes without an error: the peer closed.
[[nodiscard]] IoResult receive_some(int socket, std::span<std::byte> into) noexcept;

}  // namespace rondo::detail
