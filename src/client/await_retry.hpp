// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/detail/async_retry.hpp>
#include <rondo/detail/waiter.hpp>

#include <asio/awaitable.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <memory>
#include <utility>

namespace rondo::detail {

/// Waits in a coroutine until `attempt` succeeds or gives up. Call it when the attempt was refused.
template <typename Attempt>
asio::awaitable<typename Attempt::Result> await_retry(std::shared_ptr<WaitPoint> point,
                                                      Attempt attempt, Deadline deadline) {
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    if (cancellation.cancelled() != asio::cancellation_type::none) {
        co_return attempt.give_up(WaitEnd::cancelled);  // awaiting anything now would throw
    }
    co_return co_await async_retry(std::move(point), std::move(attempt), deadline,
                                   asio::use_awaitable);
}

}  // namespace rondo::detail
