// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/error.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <tl/expected.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rondo {

namespace detail {
class ClientCore;
}

/// How a client connects and how far it may run ahead of the server. Trivially destructible: it may
/// be a temporary in a `co_await`.
struct TcpClientOptions {
    /// Samples that may be sent and not yet acknowledged; `send` waits beyond it. 0: as many as
    /// make 1 MiB, at least 32 and at most 4,096. It bounds how far an actor runs ahead of the
    /// ring.
    std::uint32_t max_in_flight = 0;

    /// For name resolution, connecting and the greeting together.
    std::chrono::milliseconds connect_timeout{10'000};
};

/// An actor's end: sends samples to a server over TCP (echo/1), in order.
///
/// Small samples (up to 8 KiB) are copied. One that comes alone is written at once. Those that
/// follow within 100 us gather, until the executor's next turn or until they fill a write of
/// 64 KiB, and go out together; `wait` and `close` write them out first. So a burst leaves the
/// process when its coroutine suspends: do not block the executor's thread after it. Larger samples
/// go out from the caller's memory. When `send` returns, the caller may use its memory again; that
/// does not mean that the server has the sample: `wait` does.
///
/// A `send` that need not wait does not suspend: a loop that must leave its thread to others now
/// and then posts (`co_await asio::post(asio::use_awaitable)`).
///
/// Ownership: move-only; the destructor closes at once and, unless a call has already said so, logs
/// how many samples were not acknowledged: `close` first to flush. Suspended operations end with
/// `connection_closed` then. While it is open, the client counts as work of its execution context.
/// Thread-safety: all members may be called from several coroutines and threads at once, except
/// move, assignment and destruction. Samples of concurrent `send`s go out in some order; those of
/// one caller that awaits each `send` keep theirs.
class TcpClient {
public:
    /// Resolves `host`, connects to the first address that answers, reads the server's greeting and
    /// compares it with `spec`. The client's I/O runs on the calling coroutine's executor, which
    /// must outlive the client, or be destroyed only after its last use.
    ///
    /// Several addresses share the time-out. Giving up takes effect at once, but a name lookup that
    /// the system is busy with goes on, and is work of the execution context until it ends.
    ///
    /// Errors: `ConnectError`. Cancellation: any type; the connection is closed.
    [[nodiscard]] static asio::awaitable<tl::expected<TcpClient, ConnectError>> connect(
        std::string_view host, std::uint16_t port, SampleSpec spec, TcpClientOptions options = {});

    TcpClient(TcpClient&&) noexcept;
    TcpClient& operator=(TcpClient&&) noexcept;
    TcpClient(const TcpClient&) = delete;
    TcpClient& operator=(const TcpClient&) = delete;
    ~TcpClient();

    [[nodiscard]] const SampleSpec& spec() const noexcept;

    /// Sends one sample; waits while the window is full or the connection takes no more.
    ///
    /// Completes when: the caller may use the sample's memory again.
    /// Errors: `connection_closed` (at once when the peer dies), `timed_out`, `cancelled`,
    /// `mismatch`. `SendError::sent` is 1 if the sample went out all the same.
    /// Cancellation: any type. A sample is sent whole or not at all: one whose first bytes are out
    /// is finished from a copy, and counts as sent.
    /// Lifetimes: the sample's memory must stay as it is until completion.
    [[nodiscard]] asio::awaitable<tl::expected<void, SendError>> send(const Sample& sample,
                                                                      Deadline deadline = {});
    [[nodiscard]] asio::awaitable<tl::expected<void, SendError>> send(
        std::span<const ArrayBytes> arrays, Deadline deadline = {});

    /// The same for `count` stacked samples (each array `[count, *shape]`), in order.
    [[nodiscard]] asio::awaitable<tl::expected<void, SendError>> send_many(
        std::span<const ArrayBytes> stacked, std::size_t count, Deadline deadline = {});

    /// Sends without waiting; false if that is not possible now. A large sample that the connection
    /// takes only in part is finished from a copy.
    /// Errors: `connection_closed`, `mismatch`.
    [[nodiscard]] tl::expected<bool, SendError> try_send(const Sample& sample);
    [[nodiscard]] tl::expected<bool, SendError> try_send(std::span<const ArrayBytes> arrays);

    /// Completes when: every sample sent before has been acknowledged, that is, is in the ring.
    /// Errors: `connection_closed`, `timed_out`, `cancelled`.
    [[nodiscard]] asio::awaitable<tl::expected<void, SendError>> wait(Deadline deadline = {});

    /// Flushes, waits for the acknowledgements, closes; no new sample is taken meanwhile. A pending
    /// `send` ends with `connection_closed`, unless its large sample is under way: that is
    /// finished. Returns how many samples were not acknowledged: 0 if all are in the ring.
    /// Idempotent, also concurrently; then the earliest deadline ends all. Cancellation: any type;
    /// closes at once.
    [[nodiscard]] asio::awaitable<std::uint64_t> close(Deadline deadline = std::chrono::seconds{5});

    /// Samples sent and not acknowledged. May be stale at once.
    [[nodiscard]] std::uint64_t in_flight() const noexcept;

    /// True while neither side has closed. May be stale at once.
    [[nodiscard]] bool was_open() const noexcept;

private:
    static asio::awaitable<tl::expected<TcpClient, ConnectError>> connect_named(
        std::string host, std::uint16_t port, SampleSpec spec, TcpClientOptions options);
    explicit TcpClient(std::shared_ptr<detail::ClientCore> core) noexcept;

    std::shared_ptr<detail::ClientCore> core_;
};

}  // namespace rondo
