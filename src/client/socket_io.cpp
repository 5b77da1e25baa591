// SPDX-License-Identifier: Apache-2.0
#include "client/socket_io.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace rondo::detail {
namespace {

template <typename Call>
CallResult repeat(const Call& call) noexcept {
    for (;;) {
        const ssize_t done = call();
        if (done >= 0) return {static_cast<std::size_t>(done), 0};
        if (errno != EINTR) return {0, errno};
    }
}

void set_option(int socket, int level, int option, int value) noexcept {
    // A refusal costs speed, nothing else.
    (void)::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

bool CallResult::would_block() const noexcept {
    return error == EAGAIN || error == EWOULDBLOCK;
}

CallResult send_some(int socket, std::span<const std::byte> bytes) noexcept {
    return repeat(
        [&] { return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT); });
}

CallResult send_some(int socket, std::span<iovec> parts) noexcept {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
    return repeat([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

void limit_unsent(int socket) noexcept {
    set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 64 * 1024);
}

void limit_send_buffer(int socket) noexcept {
    set_option(socket, SOL_SOCKET, SO_SNDBUF, 256 * 1024);
}

CallResult receive_some(int socket, std::span<std::byte> into) noexcept {
    return repeat([&] { return ::recv(socket, into.data(), into.size(), MSG_DONTWAIT); });
}

}  // namespace rondo::detail
