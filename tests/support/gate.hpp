// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/detail/async_retry.hpp>
#include <rondo/detail/waiter.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace rondo::test {

/// The simplest thing to wait for: a number of tokens. Thread-safe, the hooks aside.
class Gate final : public detail::WaitPoint {
public:
    bool enqueue(detail::Waiter& waiter, detail::Place place) noexcept override {
        if (const auto hook = std::exchange(on_enqueue, nullptr)) hook();
        const std::lock_guard lock{mutex_};
        if (tokens_ > 0) return false;
        waiting_.link(waiter, place);
        return true;
    }

    bool cancel(detail::Waiter& waiter) noexcept override {
        const std::lock_guard lock{mutex_};
        return waiting_.unlink(waiter);
    }

    void pass_on() noexcept override {
        std::unique_lock lock{mutex_};
        ++passed_on_;
        wake(std::move(lock));
    }

    std::optional<Warning> warning() noexcept override { return to_say; }

    /// Puts tokens in and wakes as many as there are.
    void add(std::uint64_t tokens) {
        std::unique_lock lock{mutex_};
        tokens_ += tokens;
        wake(std::move(lock));
    }

    bool take() {
        const std::lock_guard lock{mutex_};
        if (tokens_ == 0) return false;
        --tokens_;
        return true;
    }

    /// Takes all tokens away, so that who was woken will be refused.
    void empty() {
        const std::lock_guard lock{mutex_};
        tokens_ = 0;
    }

    [[nodiscard]] std::uint64_t tokens() const {
        const std::lock_guard lock{mutex_};
        return tokens_;
    }
    [[nodiscard]] std::size_t waiting() const {
        const std::lock_guard lock{mutex_};
        return waiting_.size();
    }
    [[nodiscard]] int passed_on() const {
        const std::lock_guard lock{mutex_};
        return passed_on_;
    }

    std::function<void()> on_enqueue;  ///< called by the next `enqueue`, before it looks
    std::optional<Warning> to_say;

private:
    void wake(std::unique_lock<std::mutex> lock) noexcept {
        auto taken = waiting_.take(tokens_);
        lock.unlock();
        taken.wake_all();
    }

    mutable std::mutex mutex_;
    detail::WaitList waiting_;
    std::uint64_t tokens_ = 0;
    int passed_on_ = 0;
};

enum class Got : std::uint8_t { nothing, token, timed_out, cancelled };

/// Takes a token.
struct TakeToken {
    using Result = Got;
    std::shared_ptr<Gate> gate;

    std::optional<Got> operator()() const {
        if (gate->take()) return Got::token;
        return std::nullopt;
    }
    Got give_up(detail::WaitEnd end) const {
        return end == detail::WaitEnd::timed_out ? Got::timed_out : Got::cancelled;
    }
};

/// The same, as if the token were lost with a result that nobody sees.
struct TakeTokenForGood : TakeToken {
    static constexpr bool takes_for_good = true;
};

}  // namespace rondo::test
