// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/blocking_retry.hpp>

#include <cerrno>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondo::detail {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// The steady clock of libstdc++ and libc++ is CLOCK_MONOTONIC, that of FUTEX_WAIT_BITSET.
timespec timespec_of(Deadline::Clock::time_point at) noexcept {
    const auto since = at.time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    return {.tv_sec = seconds.count(),
            .tv_nsec = std::chrono::nanoseconds{since - seconds}.count()};
}

long futex(const void* word, int operation, std::uint32_t value, const timespec* until) noexcept {
    return ::syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, until, nullptr,
                     FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

// Once `woken_` is set the waiting thread may return and destroy us; the call that follows names
// the address and does not touch it. Somebody who waits there by then wakes for nothing and, like
// every user of a futex, looks again.
void BlockingWaiter::wake() noexcept {
    const void* const word = &woken_;
    woken_.store(1, std::memory_order_release);
    (void)futex(word, FUTEX_WAKE, 1, nullptr);
}

// The kernel goes to sleep only if `woken_` is still 0 once we are in its list, so a wake between
// the look and the sleep is not lost.
bool BlockingWaiter::wait(Deadline deadline) noexcept {
    const timespec until = timespec_of(deadline.at());
    bool late = false;
    while (woken_.exchange(0, std::memory_order_acquire) == 0) {
        if (late) return false;
        const long end = futex(&woken_, FUTEX_WAIT_BITSET, 0, deadline.never() ? nullptr : &until);
        late = end != 0 && errno == ETIMEDOUT;
    }
    return true;
}

}  // namespace rondo::detail
