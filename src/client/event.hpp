// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/detail/assert.hpp>
#include <rondo/detail/waiter.hpp>

#include <mutex>

namespace rondo::detail {

/// A condition of one call: not ready, then ready for good. At most one waiter.
///
/// Guarded by the mutex of whoever makes it ready, which must outlive it: derived classes see to
/// that. No wake is lost: `enqueue` looks at the flag under the mutex that `fire` runs under.
class Event : public WaitPoint {
public:
    [[nodiscard]] bool enqueue(Waiter& waiter, Place place) noexcept final {
        const std::lock_guard lock{mutex_};
        if (ready_) return false;
        RONDO_ASSERT(list_.empty(), "an event has one waiter");
        list_.link(waiter, place);
        waiter_ = &waiter;
        return true;
    }

    [[nodiscard]] bool cancel(Waiter& waiter) noexcept final {
        const std::lock_guard lock{mutex_};
        return list_.unlink(waiter);
    }

    /// Nobody else waits for this, and it stays ready.
    void pass_on() noexcept final {}

    /// With the mutex held: makes it ready, and moves its waiter to `woken`, whom the caller wakes
    /// after unlocking. A waiter must leave `woken` before the mutex is released.
    void fire(WaitList& woken) noexcept {
        ready_ = true;
        if (list_.empty()) return;
        list_.unlink(*waiter_);
        woken.link(*waiter_, Place::back);
    }

protected:
    explicit Event(std::mutex& mutex) noexcept : mutex_{mutex} {}
    ~Event() = default;

private:
    std::mutex& mutex_;
    WaitList list_;
    Waiter* waiter_ = nullptr;  // the one in list_
    bool ready_ = false;
};

}  // namespace rondo::detail
