// SPDX-License-Identifier: Apache-2.0
#include "transport/socket_calls.hpp"

#include <rondo/detail/assert.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace rondo::detail {
namespace {

template <typename Call>
ssize_t retried(const Call& call) noexcept {
    ssize_t result = 0;
    do {
        result = call();
    } while (result < 0 && errno == EINTR);
    return result;
}

IoResult failure() noexcept {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.would_block = true};
    return {.error = std::error_code{errno, std::system_category()}};
}

void set_option(int socket, int level, int option, int value) noexcept {
    // A refusal costs speed or comfort, never correctness.
    (void)::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

IoResult receive(int socket, std::span<std::byte> into) noexcept {
    const ssize_t got =
        retried([&] { return ::recv(socket, into.data(), into.size(), MSG_DONTWAIT); });
    if (got < 0) return failure();
    return {.bytes = static_cast<std::size_t>(got), .ended = got == 0 && !into.empty()};
}

IoResult send(int socket, std::span<const std::byte> bytes) noexcept {
    const ssize_t sent = retried(
        [&] { return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL); });
    if (sent < 0) return failure();
    return {.bytes = static_cast<std::size_t>(sent)};
}

std::size_t readable_bytes(int socket) noexcept {
    int bytes = 0;
    if (::ioctl(socket, FIONREAD, &bytes) != 0) return 0;
    return static_cast<std::size_t>(std::max(0, bytes));
}

bool peer_finished(int socket) noexcept {
    pollfd entry{.fd = socket, .events = POLLRDHUP, .revents = 0};
    const ssize_t ready = retried([&] { return ::poll(&entry, 1, 0); });
    return ready > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void read_exactly(int socket, std::span<iovec> into) noexcept {
    while (!into.empty()) {
        const int count = static_cast<int>(std::min<std::size_t>(into.size(), IOV_MAX));
        const ssize_t got = ::readv(socket, into.data(), count);
        // EINTR and ENOMEM pass; EAGAIN cannot be, but another try is its right answer too.
        const bool passing = got < 0 && (errno == EINTR || errno == ENOMEM || errno == EAGAIN);
        RONDO_ASSERT(got > 0 || passing, "the kernel took back bytes that it had announced");
        for (auto left = static_cast<std::size_t>(std::max<ssize_t>(got, 0)); left > 0;) {
            iovec& front = into.front();
            const std::size_t part = std::min(left, front.iov_len);
            front.iov_base = static_cast<std::byte*>(front.iov_base) + part;
            front.iov_len -= part;
            left -= part;
            if (front.iov_len == 0) into = into.subspan(1);
        }
    }
}

void set_low_water_mark(int socket, std::size_t bytes) noexcept {
    set_option(socket, SOL_SOCKET, SO_RCVLOWAT,
               static_cast<int>(std::min<std::size_t>(bytes, INT_MAX)));
}

void close_on_exec(int socket) noexcept {
    (void)::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

void prepare_listener(int socket) noexcept {
    close_on_exec(socket);
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, SOL_SOCKET, SO_OOBINLINE, 1);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);  // seconds; the default is two hours
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace rondo::detail
