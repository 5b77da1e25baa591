// SPDX-License-Identifier: Apache-2.0
#include "pinning/fork_guard.hpp"

#include <atomic>
#include <pthread.h>

namespace rondo::detail {
namespace {

/// How many forks lie between this process and the first one. Changes only in a child that has just
/// begun, and so has one thread.
std::atomic<std::uint32_t> forks{0};

void count_fork() {
    forks.fetch_add(1, std::memory_order_relaxed);
}

std::uint32_t current_generation() noexcept {
    // Fails for want of memory only: then forks are not noticed, and a child that destroys a
    // server gets errors from CUDA instead of a sentence from us.
    [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
    // order: relaxed. Whoever shares a guard between threads publishes it.
    return forks.load(std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() noexcept : generation_{current_generation()} {}

bool ForkGuard::forked() const noexcept {
    // order: relaxed. Written before the child's first instruction outside of fork().
    return generation_ != forks.load(std::memory_order_relaxed);
}

}  // namespace rondo::detail
