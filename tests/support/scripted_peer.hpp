// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/eventually.hpp"
#include "wire/greeting.hpp"
#include <rondo/spec.hpp>

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace rondo::test {

/// A server that does what a test tells it: a real socket on loopback, no protocol of its own.
///
/// Every call blocks until it is done; one that gets nowhere for a minute throws, so that a hang
/// has a name. One connection at a time. Thread-safety: one thread at a time.
class ScriptedPeer {
public:
    /// `receive_buffer` bytes if above 0: small ones make a client's writes stall early.
    explicit ScriptedPeer(int receive_buffer = 0) : listener_{::socket(AF_INET, SOCK_STREAM, 0)} {
        require(listener_ >= 0, "socket");
        if (receive_buffer > 0) {
            ::setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        }
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        require(::bind(listener_, as_sockaddr(&address), sizeof address) == 0, "bind");
        require(::listen(listener_, 64) == 0, "listen");
        socklen_t size = sizeof address;
        require(::getsockname(listener_, as_sockaddr(&address), &size) == 0, "getsockname");
        port_ = ntohs(address.sin_port);
    }
    ScriptedPeer(const ScriptedPeer&) = delete;
    ScriptedPeer& operator=(const ScriptedPeer&) = delete;
    ~ScriptedPeer() {
        close();
        stop_listening();
    }

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

    /// Later connections are refused.
    void stop_listening() {
        if (listener_ >= 0) ::close(listener_);
        listener_ = -1;
    }

    /// Whether `accept` would return at once.
    [[nodiscard]] bool has_connection() const {
        pollfd watched{listener_, POLLIN, 0};
        return ::poll(&watched, 1, 0) == 1;
    }

    void accept() {
        await(listener_, POLLIN, "a connection");
        close();
        connection_ = ::accept(listener_, nullptr, nullptr);
        require(connection_ >= 0, "accept");
        const int on = 1;
        ::setsockopt(connection_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }

    void say(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            await(connection_, POLLOUT, "room to write");
            const ssize_t done = ::send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            require(done > 0, "send");
            bytes = bytes.subspan(static_cast<std::size_t>(done));
        }
    }
    void say(std::string_view text) { say(std::as_bytes(std::span{text})); }

    void greet(const SampleSpec& spec) { say(*wire::encode_greeting(spec)); }

    void ack(std::size_t samples) { say(std::string(samples, '\x01')); }

    std::vector<std::byte> read_exactly(std::size_t bytes) {
        std::vector<std::byte> all(bytes);
        for (std::size_t have = 0; have < bytes;) {
            const std::size_t more = read_into(std::span{all}.subspan(have));
            require(more > 0, "read: the client closed too early");
            have += more;
        }
        return all;
    }

    std::vector<std::byte> read_to_end() {
        std::vector<std::byte> all;
        for (;;) {
            std::vector<std::byte> piece(64 * 1024);
            const std::size_t more = read_into(piece);
            if (more == 0) return all;
            all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(more));
        }
    }

    /// Bytes that can be read now.
    [[nodiscard]] std::size_t available() const {
        int bytes = 0;
        ::ioctl(connection_, FIONREAD, &bytes);
        return static_cast<std::size_t>(bytes);
    }

    /// Segments that came so far.
    [[nodiscard]] std::uint32_t segments() const {
        // What the kernel says behind the part that the C library knows.
        struct {
            tcp_info known;
            std::uint64_t rates_and_bytes[4];  // NOLINT: the kernel's layout
            std::uint32_t segments_out;
            std::uint32_t segments_in;
        } info{};
        socklen_t size = sizeof info;
        require(::getsockopt(connection_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
        return info.segments_in;
    }

    void close() {
        if (connection_ >= 0) ::close(connection_);
        connection_ = -1;
    }

    /// As if the process had been killed with data unread: the client gets a reset, behind all that
    /// was said. A reset drops what has not left yet, and the kernel sends many short segments only
    /// as fast as the client's kernel takes them.
    void reset() {
        require(eventually([this] { return unacknowledged() == 0; }), "delivery before a reset");
        const linger now{1, 0};
        ::setsockopt(connection_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close();
    }

private:
    static sockaddr* as_sockaddr(sockaddr_in* address) {
        return reinterpret_cast<sockaddr*>(address);  // NOLINT: what the API is like
    }

    static void require(bool holds, const char* what) {
        if (!holds) throw std::runtime_error{std::string{"scripted peer: "} + what};
    }

    /// Bytes said that the client's kernel has not confirmed.
    [[nodiscard]] int unacknowledged() const {
        int bytes = 0;
        require(::ioctl(connection_, SIOCOUTQ, &bytes) == 0, "SIOCOUTQ");
        return bytes;
    }

    static void await(int socket, short event, const char* what) {
        pollfd watched{socket, event, 0};
        require(::poll(&watched, 1, 60'000) == 1, what);
    }

    std::size_t read_into(std::span<std::byte> into) {
        await(connection_, POLLIN, "something to read");
        const ssize_t done = ::recv(connection_, into.data(), into.size(), 0);
        require(done >= 0, "recv");
        return static_cast<std::size_t>(done);
    }

    int listener_ = -1;
    int connection_ = -1;
    std::uint16_t port_ = 0;
};

}  // namespace rondo::test
