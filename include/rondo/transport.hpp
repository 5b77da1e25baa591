// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/detail/async_retry.hpp>
#include <rondo/error.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace rondo {

namespace detail {
class ServerCore;
struct IngressAccess;
struct RoomAttempt {
    using Result = bool;
    static constexpr bool only_looks = true;
    std::shared_ptr<ServerCore> core;
    std::optional<bool> operator()() const noexcept;
    bool give_up(WaitEnd) const noexcept { return false; }
};
}  // namespace detail

/// A transport's way into a server's ring. A cheap handle to copy; keeps the ring alive.
/// Thread-safety: every member may be called from any thread.
class Ingress {
public:
    [[nodiscard]] const SampleSpec& spec() const noexcept;

    /// Copies up to `count` samples, `[count, *shape]` per array, into the ring and returns how
    /// many were taken: 0 when the ring is full. Never waits. Errors: `closed`; `mismatch` when the
    /// arrays are not the spec's.
    [[nodiscard]] tl::expected<std::size_t, InsertError> try_insert(
        std::span<const ArrayBytes> arrays, std::size_t count = 1);

    /// The same for whole payloads, back to back.
    [[nodiscard]] tl::expected<std::size_t, InsertError> try_insert_payloads(
        std::span<const std::byte> payloads);

    /// Completes when: there may be room (true), or the server closed, the deadline passed or the
    /// wait was cancelled (false). Room is not reserved: try again, and wait again if refused.
    /// Signature: void(bool). Cancellation: any type; leaves nothing behind.
    template <typename CompletionToken>
    auto async_wait_for_room(Deadline deadline, CompletionToken&& token) {
        return detail::async_retry(room(), detail::RoomAttempt{core_}, deadline,
                                   std::forward<CompletionToken>(token));
    }

    /// The same; the calling thread waits. For a transport whose threads block.
    [[nodiscard]] bool blocking_wait_for_room(Deadline deadline = {});

private:
    friend struct detail::IngressAccess;
    explicit Ingress(std::shared_ptr<detail::ServerCore> core) noexcept;
    [[nodiscard]] std::shared_ptr<detail::WaitPoint> room() const noexcept;

    std::shared_ptr<detail::ServerCore> core_;
};

/// A way for samples to reach a server: bytes in, acknowledgements out. `listen(TcpOptions)` is the
/// built-in one; implement this for another and hand it to `Server::add`. docs/transports.md has
/// the rules, and a whole one.
///
/// Ownership: the server's, until `stop` has returned. It owns its threads.
/// Thread-safety: called by the server from one thread at a time: `start` once, then `stop` once.
class Transport {
public:
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;

    /// Begins to take samples and returns; the work happens on the transport's own threads.
    /// Errors: any that says why it cannot; `Server::add` returns it, and the transport is
    /// destroyed without `stop`.
    [[nodiscard]] virtual tl::expected<void, ListenError> start(Ingress ingress) = 0;

    /// Called after the input was closed: every wait for room has ended, and every insert says
    /// `closed`. Returns once the transport's threads are joined and nothing of it uses the ingress
    /// any more. It must end what the threads wait for outside: a read, an accept.
    virtual void stop() noexcept = 0;
};

}  // namespace rondo
