// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

    /// Calls `use` with each that a thread may have used.
    template <typename Use>
    void each(const Use& use) const {
        const std::size_t used = std::min(count, threads.load(std::memory_order_relaxed));
        for (std::size_t i = 0; i < used; ++i) use(stripes_[i].value);
    }

private:
    static constexpr std::size_t cache_line = 64;
    struct alignas(cache_line) Stripe {
        T value{};
    };

    // Threads take turns, so that the first `count` of them share nothing.
    static std::size_t index_of_this_thread() noexcept {
        thread_local const std::size_t mine =
            threads.fetch_add(1, std::memory_order_relaxed) % count;
        return mine;
    }

    // How many threads have asked, ever. A reader may miss one that asks just now, and with it
    // counts that he may miss: those that he must see happened before, as did the asking.
    inline static std::atomic<std::size_t> threads{0};

    std::array<Stripe, count> stripes_{};
};

}  // namespace rondo::detail
