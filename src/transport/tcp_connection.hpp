// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/server_core.hpp"
#include "transport/io_threads.hpp"
#include "transport/side_buffers.hpp"
#include "transport/socket_calls.hpp"
#include "wire/framing.hpp"

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rondo::detail {

/// What all connections of a transport share.
struct TcpShared {
    std::shared_ptr<ServerCore> core;
    wire::PayloadFramer framer;
    std::vector<std::byte> greeting;
    std::shared_ptr<SideBuffers> side_buffers;
    std::chrono::milliseconds linger;
};

/// One accepted connection of the server, speaking echo/1: greeting out, payloads in, acks out.
///
/// Lives on one I/O thread and is touched only there. The coroutine `run` owns it; it ends when the
/// peer has, or after `leave`. An ack is sent for samples that are committed, and only for those.
/// Reading never waits for acks to be written: what cannot be written is a number, not memory.
class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
public:
    TcpConnection(asio::ip::tcp::socket socket, IoThread& io,
                  std::shared_ptr<const TcpShared> shared);
    TcpConnection(const TcpConnection&) = delete;
    TcpConnection& operator=(const TcpConnection&) = delete;
    ~TcpConnection();

    /// Serves the connection to its end.
    static asio::awaitable<void> run(std::shared_ptr<TcpConnection> self);

    /// The server closes: no more samples are taken; the last acks go out, then the connection
    /// ends.
    void leave() noexcept;

private:
    // Payloads above this are read in place, smaller ones through the thread's buffer.
    static constexpr std::uint64_t largest_buffered = 8'192;

    // A read of this much is of a peer that most likely goes on sending.
    static constexpr std::size_t in_full_flow = std::size_t{16} << 10;

    // A turn ends after so many rounds, or when there is something to wait for. Then the others on
    // the thread are served, and the peer gets its acks.
    static constexpr int rounds_in_turn = 8;

    enum class Next : std::uint8_t {
        read_on,        // there may be more to do at once
        yield,          // there may be more once the others on the thread were served
        wait_readable,  // the kernel has nothing more for us
        wait_room,      // the ring is full
        wait_side,      // the rest of a sample is missing: it needs a side buffer
        stop,           // the peer has finished, or the server closes
    };

    asio::awaitable<bool> greet();
    asio::awaitable<void> read_samples();
    asio::awaitable<bool> wait_for(Next what);
    asio::awaitable<void> linger();

    [[nodiscard]] Next read_small();
    [[nodiscard]] Next insert_held();
    [[nodiscard]] Next read_large();
    [[nodiscard]] Next read_in_place(std::uint64_t samples);
    [[nodiscard]] Next read_part(std::size_t available);
    void build_iovecs(const Reservation& slots, std::size_t skipped);
    void count_truncated(std::size_t held) noexcept;

    void note_committed(std::uint64_t samples) noexcept;
    void send_acks() noexcept;
    void flush_acks() noexcept;
    void expect_bytes(std::size_t bytes) noexcept;

    asio::ip::tcp::socket socket_;
    const int handle_;
    IoThread& io_;
    const std::shared_ptr<const TcpShared> shared_;
    ServerCore& core_;
    const std::uint64_t payload_;
    TransportCounters& counters_;

    // Received, not yet in the ring: the tail of a small sample, one whole sample that found it
    // full, more only if others took the room that was there.
    std::vector<std::byte> held_;
    SideBuffer side_;  // the beginning of a large sample
    std::vector<iovec> iovecs_;
    std::size_t low_water_mark_ = 1;
    bool waited_at_mark_ = false;  // for the sample under way

    [[no_unique_address]] Recorder::Instant round_began_;
    [[no_unique_address]] Recorder::Arrivals arrivals_;

    std::uint64_t acks_pending_ = 0;
    bool acks_waiting_ = false;  // for the socket to take more
    bool acks_lost_ = false;     // the peer takes no more; what it sent is still read
    bool leaving_ = false;
    bool lingering_ = false;
};

}  // namespace rondo::detail
