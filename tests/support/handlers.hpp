// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/cancellation_signal.hpp>
#include <asio/io_context.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace rondo::test {

/// An executor whose every step is the test's: an io_context polled by hand.
class HandPolled {
public:
    [[nodiscard]] asio::io_context& context() noexcept { return context_; }
    [[nodiscard]] auto executor() noexcept { return context_.get_executor(); }

    /// Runs what is ready, and what that makes ready; returns how many handlers ran.
    std::size_t poll() {
        context_.restart();
        return context_.poll();
    }

    /// Runs one ready handler, if there is one.
    std::size_t poll_one() {
        context_.restart();
        return context_.poll_one();
    }

    /// Runs until nobody waits for anything any more, timers included.
    std::size_t run() {
        context_.restart();
        return context_.run();
    }

private:
    asio::io_context context_;
};

/// What a `CountingAllocator` and its copies did.
struct Allocations {
    std::atomic<std::size_t> made{0};
    std::atomic<std::size_t> bytes_left{0};
};

template <typename T>
class CountingAllocator {
public:
    using value_type = T;

    explicit CountingAllocator(Allocations& counts) noexcept : counts_{&counts} {}
    template <typename U>
    CountingAllocator(const CountingAllocator<U>& other) noexcept  // NOLINT: as allocators do
        : counts_{other.counts_} {}

    T* allocate(std::size_t n) {
        counts_->made.fetch_add(1);
        counts_->bytes_left.fetch_add(n * sizeof(T));
        return std::allocator<T>{}.allocate(n);
    }
    void deallocate(T* memory, std::size_t n) noexcept {
        counts_->bytes_left.fetch_sub(n * sizeof(T));
        std::allocator<T>{}.deallocate(memory, n);
    }

    template <typename U>
    bool operator==(const CountingAllocator<U>& other) const noexcept {
        return counts_ == other.counts_;
    }

private:
    template <typename U>
    friend class CountingAllocator;
    Allocations* counts_;
};

/// A completion handler with everything that one can be associated with.
template <typename Executor, typename Function>
class FullHandler {
public:
    using executor_type = Executor;
    using allocator_type = CountingAllocator<void>;
    using cancellation_slot_type = asio::cancellation_slot;

    FullHandler(Executor executor, Allocations& counts, asio::cancellation_slot slot,
                Function function)
        : executor_{std::move(executor)},
          allocator_{counts},
          slot_{slot},
          function_{std::move(function)} {}

    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_; }
    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return slot_; }

    template <typename... Args>
    void operator()(Args&&... args) {
        function_(std::forward<Args>(args)...);
    }

private:
    Executor executor_;
    allocator_type allocator_;
    asio::cancellation_slot slot_;
    Function function_;
};

}  // namespace rondo::test
