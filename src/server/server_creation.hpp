// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/pin_ring.hpp"
#include "server/server_core.hpp"
#include <rondo/detail/server_creation.hpp>
#include <rondo/detail/waiter.hpp>

#include <memory>
#include <mutex>
#include <optional>

namespace rondo::detail {

using MadeCore = tl::expected<std::shared_ptr<ServerCore>, PinError>;

/// Everything that making a server takes; it owns what the options only refer to.
struct ServerRequest {
    SampleSpec spec;
    ServerOptions options;
    std::optional<PinRequest> pin;  ///< with `pin_host_memory`
};

[[nodiscard]] ServerRequest make_server_request(SampleSpec spec, const ServerOptions& options);

/// Makes ring, registrations and core, on the calling thread.
[[nodiscard]] MadeCore make_core(const ServerRequest& request);

/// Shared by the operation and the thread that makes the server. Whoever lets go last destroys a
/// server that nobody took, so one that was cancelled ends on its own thread. One waiter.
class ServerCreation final : public WaitPoint {
public:
    explicit ServerCreation(ServerRequest request) noexcept : request_{std::move(request)} {}

    /// Makes the server and wakes the waiter.
    void run() noexcept;
    void finish(MadeCore made) noexcept;
    void fail_for_memory() noexcept;

    /// What came of it, once; nothing before.
    [[nodiscard]] std::optional<MadeCore> take() noexcept;

    [[nodiscard]] bool enqueue(Waiter& waiter, Place place) noexcept override;
    [[nodiscard]] bool cancel(Waiter& waiter) noexcept override;
    void pass_on() noexcept override {}  // nobody else waits

private:
    const ServerRequest request_;
    std::mutex mutex_;
    std::optional<MadeCore> made_;
    WaitList waiter_;
};

}  // namespace rondo::detail
