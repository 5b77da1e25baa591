// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/detail/async_retry.hpp>
#include <rondo/detail/waiter.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace rondo::detail {

/// A thread that waits. Lives on that thread's stack; used again after each refusal.
///
/// A futex rather than a condition variable: the waiting thread may destroy us as soon as it is
/// free, so `notify` would have to stay under the lock, and who it wakes would run into that lock.
class BlockingWaiter final : public Waiter {
public:
    void wake() noexcept override;

    /// Consumes a wake; false if the deadline passed first.
    [[nodiscard]] bool wait(Deadline deadline) noexcept;

private:
    std::atomic<std::uint32_t> woken_ = 0;
};

/// The blocking form of an operation: tries, and waits on this thread while it is refused.
template <typename Attempt>
typename Attempt::Result blocking_retry(WaitPoint& point, Attempt attempt, Deadline deadline) {
    BlockingWaiter waiter;
    Place place = Place::back;
    for (;;) {
        if (auto result = attempt()) {
            // Before the caller has used what it saw, so somebody may wake for nothing; but the
            // permit does not end with a caller that uses nothing.
            if (OnlyLooks<Attempt> && place == Place::turn) point.pass_on_one();
            return std::move(*result);
        }
        if (deadline.passed()) return attempt.give_up(WaitEnd::timed_out);
        if (!point.enqueue(waiter, place)) continue;
        if (!waiter.wait(deadline)) {
            if (point.cancel(waiter)) return attempt.give_up(WaitEnd::timed_out);
            // No longer linked: a wake is on its way, and its permit must be used.
            (void)waiter.wait(Deadline{});
        }
        place = Place::turn;
    }
}

}  // namespace rondo::detail
