// SPDX-License-Identifier: Apache-2.0
#include "support/raw_peer.hpp"

#include "support/eventually.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace rondo::test {
namespace {

constexpr std::byte ack{0x01};

[[noreturn]] void refuse(const char* what) {
    throw std::system_error{errno, std::system_category(), what};
}

void set_option(int socket, int level, int option, int value) {
    if (::setsockopt(socket, level, option, &value, sizeof value) != 0) refuse("setsockopt");
}

int connect_to(const sockaddr* address, socklen_t size, RawPeer::Options options) {
    const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) refuse("socket");
    try {
        const timeval limit{.tv_sec = patience.count(), .tv_usec = 0};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
        if (options.receive_buffer > 0) {
            set_option(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer);
        }
        if (options.send_buffer > 0) {
            set_option(socket, SOL_SOCKET, SO_SNDBUF, options.send_buffer);
        }
        if (::connect(socket, address, size) != 0) refuse("connect");
    } catch (...) {
        ::close(socket);
        throw;
    }
    return socket;
}

}  // namespace

RawPeer::RawPeer(const Endpoint& to, Options options) {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET, to.address.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(to.port);
        socket_ = connect_to(reinterpret_cast<const sockaddr*>(&v4), sizeof v4, options);
    } else if (::inet_pton(AF_INET6, to.address.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(to.port);
        socket_ = connect_to(reinterpret_cast<const sockaddr*>(&v6), sizeof v6, options);
    } else {
        throw std::invalid_argument{"no numeric address: " + to.address};
    }
}

RawPeer::RawPeer(RawPeer&& other) noexcept : socket_{std::exchange(other.socket_, -1)} {}

void RawPeer::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) refuse("send");
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
}

void RawPeer::write_in_pieces(std::span<const std::byte> bytes, std::span<const std::size_t> cuts) {
    std::size_t begin = 0;
    for (const std::size_t cut : cuts) {
        write(bytes.subspan(begin, cut - begin));
        begin = cut;
    }
    write(bytes.subspan(begin));
}

std::size_t RawPeer::write_some(std::span<const std::byte> bytes) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EINTR) return 0;
    refuse("send");
}

void RawPeer::write_urgent(std::byte byte) {
    if (::send(socket_, &byte, 1, MSG_OOB | MSG_NOSIGNAL) != 1) refuse("send of an urgent byte");
}

void RawPeer::flood(std::span<const std::byte> bytes) noexcept {
    while (::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
    }
}

void RawPeer::wait_until_received() {
    const bool received = eventually([this] {
        int unacknowledged = 0;
        if (::ioctl(socket_, SIOCOUTQ, &unacknowledged) != 0) refuse("SIOCOUTQ");
        return unacknowledged == 0;
    });
    if (!received) throw std::runtime_error{"the other end's kernel does not take the bytes"};
}

Bytes RawPeer::read(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t filled = 0; filled < size;) {
        const ssize_t got = ::recv(socket_, bytes.data() + filled, size - filled, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse("recv");
        if (got == 0) {
            throw std::runtime_error{"the stream ended after " + std::to_string(filled) + " of " +
                                     std::to_string(size) + " bytes"};
        }
        filled += static_cast<std::size_t>(got);
    }
    return bytes;
}

void RawPeer::read_acks(std::uint64_t count) {
    constexpr std::uint64_t most = 65'536;
    while (count > 0) {
        const auto part = static_cast<std::size_t>(std::min(count, most));
        const Bytes bytes = read(part);
        if (!std::ranges::all_of(bytes, [](std::byte byte) { return byte == ack; })) {
            throw std::runtime_error{"a byte that is no ack"};
        }
        count -= part;
    }
}

std::uint64_t RawPeer::acks_here() {
    std::array<std::byte, 65'536> bytes;
    std::uint64_t acks = 0;
    for (;;) {
        const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return acks;
        if (got < 0) refuse("recv");
        if (got == 0) throw std::runtime_error{"the stream ended"};
        acks += static_cast<std::uint64_t>(got);
    }
}

std::uint64_t RawPeer::read_acks_to_end() {
    std::array<std::byte, 65'536> bytes;
    std::uint64_t acks = 0;
    for (;;) {
        const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse("recv of the last acks");
        if (got == 0) return acks;
        const auto count = static_cast<std::size_t>(got);
        if (!std::all_of(bytes.begin(), bytes.begin() + got,
                         [](std::byte byte) { return byte == ack; })) {
            throw std::runtime_error{"a byte that is no ack"};
        }
        acks += count;
    }
}

void RawPeer::read_to_end() noexcept {
    std::array<std::byte, 65'536> bytes;
    while (::recv(socket_, bytes.data(), bytes.size(), 0) > 0) {
    }
}

void RawPeer::half_close() {
    if (::shutdown(socket_, SHUT_WR) != 0) refuse("shutdown");
}

void RawPeer::close() noexcept {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void RawPeer::reset() noexcept {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
}

bool has_ipv6() {
    const int socket = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return false;
    sockaddr_in6 loopback{};
    loopback.sin6_family = AF_INET6;
    loopback.sin6_addr = in6addr_loopback;
    const int bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback);
    ::close(socket);
    return bound == 0;
}

ChildProcess::ChildProcess(const std::function<int()>& body) {
    child_ = ::fork();
    if (child_ < 0) refuse("fork");
    if (child_ > 0) return;
    // No exception and no exit handler may run twice, here and in the parent.
    int status = 99;
    try {
        status = body();
    } catch (...) {
    }
    ::_exit(status);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : child_{std::exchange(other.child_, -1)} {}

void ChildProcess::kill() noexcept {
    if (child_ < 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, -1), nullptr, 0);
}

int ChildProcess::wait() {
    int status = 0;
    const bool ended = eventually([&] { return ::waitpid(child_, &status, WNOHANG) == child_; });
    if (!ended) {
        kill();
        return -1;
    }
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Pipe::Pipe() {
    if (::pipe(ends_) != 0) refuse("pipe");
}

Pipe::~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
}

void Pipe::put(std::uint32_t value) const {
    if (::write(ends_[1], &value, sizeof value) != sizeof value) refuse("write to a pipe");
}

std::uint32_t Pipe::get() const {
    std::uint32_t value = 0;
    if (::read(ends_[0], &value, sizeof value) != sizeof value) refuse("read from a pipe");
    return value;
}

}  // namespace rondo::test
