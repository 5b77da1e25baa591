// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rondo::detail {

/// A counter that only grows; whoever reads it adds up those of all stripes.
/// order: relaxed throughout. A count says nothing about other memory.
using Counter = std::atomic<std::uint64_t>;

/// A `T` for each of a few groups of threads, on cache lines of its own: threads that count at the
/// same time do not take lines from each other, unless there are more of them than stripes.
/// Thread-safety: that of `T`.
template <typename T>
class Striped {
public:
    static constexpr std::size_t count = 8;

    /// The calling thread's.
    [[nodiscard]] T& mine() noexcept { return stripes_[index_of_this_thread()].value; }

    /// Calls `use` with each.
    template <typename Use>
    void each(const Use& use) const {
        for (const Stripe& stripe : stripes_) use(stripe.value);
    }

private:
    static constexpr std::size_t cache_line = 64;
    struct alignas(cache_line) Stripe {
        T value{};
    };

    // Threads take turns, so that the first `count` of them share nothing.
    static std::size_t index_of_this_thread() noexcept {
        static std::atomic<std::size_t> next{0};
        thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed) % count;
        return mine;
    }

    std::array<Stripe, count> stripes_{};
};

}  // namespace rondo::detail
