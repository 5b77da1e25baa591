// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/tcp_options.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rondo::test {

using Bytes = std::vector<std::byte>;

/// The other end of a server's connection, in plain system calls, so that it can do what no client
/// of rondo would. Blocking; every wait gives up after `patience` with an exception, as does every
/// call that the system refuses, so a peer may run on any thread.
class RawPeer {
public:
    struct Options {
        int receive_buffer = 0;  ///< SO_RCVBUF; 0: the system's choice
        int send_buffer = 0;     ///< SO_SNDBUF
    };

    /// Connects, and reads nothing.
    explicit RawPeer(const Endpoint& to) : RawPeer{to, Options{}} {}
    RawPeer(const Endpoint& to, Options options);
    RawPeer(RawPeer&& other) noexcept;
    RawPeer& operator=(RawPeer&&) = delete;
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;
    ~RawPeer() { close(); }

    [[nodiscard]] int handle() const noexcept { return socket_; }

    // --- sending --------------------------------------------------------------------------------

    /// Everything, in one call if the system takes it.
    void write(std::span<const std::byte> bytes);

    /// The same bytes in pieces that end at `cuts` (ascending), one call each.
    void write_in_pieces(std::span<const std::byte> bytes, std::span<const std::size_t> cuts);

    /// What the system takes now.
    std::size_t write_some(std::span<const std::byte> bytes);

    /// One urgent byte in the stream.
    void write_urgent(std::byte byte);

    /// Sends until the peer is gone or `bytes`, again and again, were refused with an error.
    void flood(std::span<const std::byte> bytes) noexcept;

    /// Waits until the other end's kernel has everything that was sent.
    void wait_until_received();

    // --- receiving ------------------------------------------------------------------------------

    /// Exactly `size` bytes.
    [[nodiscard]] Bytes read(std::size_t size);

    /// Reads `count` acks. Throws if anything else comes.
    void read_acks(std::uint64_t count);

    /// The acks that are here now, taken off the socket.
    [[nodiscard]] std::uint64_t acks_here();

    /// Reads acks to the end of the stream and returns how many came. Throws if the connection was
    /// reset, or anything but acks came.
    [[nodiscard]] std::uint64_t read_acks_to_end();

    /// Reads to the end of the stream, or to a reset.
    void read_to_end() noexcept;

    // --- leaving --------------------------------------------------------------------------------

    void half_close();
    void close() noexcept;
    void reset() noexcept;  ///< closes with a reset

private:
    int socket_ = -1;
};

/// Whether this machine has an IPv6 loopback.
[[nodiscard]] bool has_ipv6();

/// A child process that runs `body` and exits with what it returns. Where other threads run, `body`
/// may only use system calls.
class ChildProcess {
public:
    explicit ChildProcess(const std::function<int()>& body);
    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&&) = delete;
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess() { kill(); }

    /// SIGKILL, and waits until it is gone.
    void kill() noexcept;

    /// Waits for it; its exit status, or -1 if it did not exit by itself.
    [[nodiscard]] int wait();

private:
    pid_t child_ = -1;
};

/// A pipe for one process to wait for another.
class Pipe {
public:
    Pipe();
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe();

    [[nodiscard]] int reader() const noexcept { return ends_[0]; }
    [[nodiscard]] int writer() const noexcept { return ends_[1]; }

    void put(std::uint32_t value) const;
    [[nodiscard]] std::uint32_t get() const;

private:
    int ends_[2] = {-1, -1};  // NOLINT(modernize-avoid-c-arrays): what pipe() fills
};

}  // namespace rondo::test
