// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo::detail {

/// Somebody who waits for a condition. A node of one `WaitPoint`'s list while it is linked.
///
/// Whoever unlinks a waiter, under the wait point's lock, owns it: a waker calls `wake`, a
/// canceller that found it linked ends the wait itself. So a wait ends exactly once.
class Waiter {
public:
    Waiter() = default;
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    /// Called once by the waker that unlinked it, without the lock. A wake is a *permit*: the
    /// waiter must try again, or pass the permit on (`WaitPoint::pass_on`).
    virtual void wake() noexcept = 0;

protected:
    ~Waiter() = default;

private:
    friend class WaitList;
    Waiter* previous_ = nullptr;
    Waiter* next_ = nullptr;
    std::chrono::steady_clock::time_point since_{};  ///< when the wait began, over all refusals
    bool linked_ = false;
    bool marked_ = false;
};

/// Where a waiter goes in the list: a refused one returns to its turn, before all who came later.
enum class Place : std::uint8_t { back, turn };

/// A condition that can be waited for. All members are thread-safe.
class WaitPoint {
public:
    /// Links the waiter, or declines (false) because the condition holds now and the caller must
    /// try again instead. After true the waiter may be woken, and gone, at once.
    [[nodiscard]] virtual bool enqueue(Waiter& waiter, Place place) noexcept = 0;

    /// Unlinks the waiter; false if a waker was faster (its `wake` has been or will be called).
    [[nodiscard]] virtual bool cancel(Waiter& waiter) noexcept = 0;

    /// Hands an unused permit to whoever can use it: wakes as many as what is available now allows.
    virtual void pass_on() noexcept = 0;

    /// For one permit that somebody may have used: wakes at most one, if there is anything to have.
    virtual void pass_on_one() noexcept { pass_on(); }

    /// What to log of a wait that has lasted long, if its condition may never come.
    struct Warning {
        std::chrono::steady_clock::duration after;
        std::string_view line;
    };
    [[nodiscard]] virtual std::optional<Warning> warning() noexcept { return std::nullopt; }

protected:
    ~WaitPoint() = default;
};

/// An intrusive FIFO of waiters. Not thread-safe: guarded by its wait point's lock.
class WaitList {
public:
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// `marked`: see `take_marked`. `Place::turn` is linear in the number of those before it.
    void link(Waiter& waiter, Place place, bool marked = false) noexcept;

    /// False if it was not linked.
    bool unlink(Waiter& waiter) noexcept;

    /// When the wait at the head began. Precondition: !empty().
    [[nodiscard]] std::chrono::steady_clock::time_point oldest() const noexcept;

    /// The waiters taken out for waking, to be woken after the lock is released.
    class Taken {
    public:
        Taken() = default;
        Taken(Taken&& other) noexcept;
        Taken& operator=(Taken&&) = delete;
        Taken(const Taken&) = delete;
        Taken& operator=(const Taken&) = delete;
        ~Taken();  ///< asserts that everybody was woken

        void wake_all() noexcept;

    private:
        friend class WaitList;
        explicit Taken(Waiter* chain) noexcept : chain_{chain} {}
        Waiter* chain_ = nullptr;
    };

    /// Takes out up to `count` waiters from the head.
    [[nodiscard]] Taken take(std::uint64_t count) noexcept;

    /// Takes out all that were linked with a mark.
    [[nodiscard]] Taken take_marked() noexcept;

private:
    void link_behind(Waiter* before, Waiter& waiter) noexcept;

    Waiter* head_ = nullptr;
    Waiter* tail_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace rondo::detail
