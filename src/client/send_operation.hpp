// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/client_core.hpp"
#include <rondo/detail/async_retry.hpp>
#include <rondo/error.hpp>

#include <tl/expected.hpp>

#include <memory>
#include <optional>
#include <span>

namespace rondo::detail {

/// One call that sends `count` stacked samples, and how far it has come. It waits at two places in
/// turn: for room, and for the end of a large sample that is under way.
///
/// Lives where the caller's memory outlives it (a coroutine's frame, a stack): its end abandons
/// what is under way, so nothing reads that memory afterwards.
class SendOperation {
public:
    using Result = tl::expected<void, SendError>;

    SendOperation(std::shared_ptr<ClientCore> core, std::span<const ArrayBytes> arrays,
                  std::size_t count) noexcept
        : core_{std::move(core)}, arrays_{arrays}, count_{count} {}
    SendOperation(const SendOperation&) = delete;
    SendOperation& operator=(const SendOperation&) = delete;
    ~SendOperation() { abandon_large(); }

    /// Goes as far as it can; nothing: it has to wait at `place`.
    [[nodiscard]] std::optional<Result> proceed();
    [[nodiscard]] std::shared_ptr<WaitPoint> place() const noexcept;
    [[nodiscard]] Result give_up(WaitEnd end);

private:
    void abandon_large() noexcept;
    [[nodiscard]] Result failed(SendError::Code code) const;

    std::shared_ptr<ClientCore> core_;
    std::span<const ArrayBytes> arrays_;
    std::size_t count_;
    std::size_t sent_ = 0;
    bool checked_ = false;
    std::shared_ptr<LargeSend> large_;
};

/// What a `SendOperation` does at one place, for the retry helpers: it is done there when the
/// operation is, or when it has to wait elsewhere.
struct SendAttempt {
    struct Result {
        std::optional<SendOperation::Result> of_operation;  ///< nothing: go on at another place
    };

    SendOperation* operation;
    const WaitPoint* place;

    std::optional<Result> operator()() const {
        if (auto result = operation->proceed()) return Result{std::move(*result)};
        if (operation->place().get() != place) return Result{std::nullopt};
        return std::nullopt;
    }
    Result give_up(WaitEnd end) const { return Result{operation->give_up(end)}; }
};

/// Waits until all of `target` samples are acknowledged.
struct WaitAttempt {
    using Result = tl::expected<void, SendError>;

    std::shared_ptr<ClientCore> core;
    std::uint64_t target;

    std::optional<Result> operator()() const;
    Result give_up(WaitEnd end) const;
};

/// Waits until the client is closed; gives up by closing it.
struct CloseAttempt {
    using Result = std::uint64_t;

    std::shared_ptr<ClientCore> core;

    std::optional<Result> operator()() const { return core->closed(); }
    Result give_up(WaitEnd /*end*/) const { return core->close_now(); }
};

/// The calls that never wait.
[[nodiscard]] tl::expected<bool, SendError> try_send(const std::shared_ptr<ClientCore>& core,
                                                     std::span<const ArrayBytes> arrays);

}  // namespace rondo::detail
