// SPDX-License-Identifier: Apache-2.0
//
// The store's hot path under the thread sanitizer. Producers and consumers spin here instead of
// waiting, and no lock but the store's own is shared: every other synchronisation would hide a
// memory order that is too weak.
#include "support/catch.hpp"
#include "support/stores.hpp"

#include <atomic>
#include <thread>
#include <vector>

using rondo::detail::LeaseRefusal;
using rondo::detail::ReserveRefusal;
using rondo::detail::Store;

namespace {

struct Shape {
    std::uint64_t batch_size;
    std::uint64_t num_buffers;
    int producers;
    int consumers;
    std::uint64_t samples;  ///< at which the input is closed
};

constexpr std::uint64_t words = 8;

std::uint64_t* words_of(Store& store, std::uint64_t buffer, std::uint64_t slot) {
    return reinterpret_cast<std::uint64_t*>(store.ring().slot(0, buffer, slot));
}

/// Reserves, fills and commits until the input is closed; returns how many samples that were.
std::uint64_t produce(Store& store, std::uint64_t producer, std::atomic<std::int64_t>& left) {
    std::uint64_t sequence = 0;
    for (;;) {
        const auto slots = store.try_reserve(1 + sequence % 3);
        if (!slots) {
            if (slots.error() == ReserveRefusal::closed) return sequence;
            std::this_thread::yield();
            continue;
        }
        for (std::uint64_t i = 0; i < slots->count; ++i) {
            std::uint64_t* const to = words_of(store, slots->buffer, slots->first_slot + i);
            for (std::uint64_t w = 0; w < words; ++w) to[w] = (producer << 48U) + sequence;
            ++sequence;
        }
        store.commit(*slots);
        // order: relaxed throughout, so that this counter orders nothing.
        const auto count = static_cast<std::int64_t>(slots->count);
        if (left.fetch_sub(count, std::memory_order_relaxed) <= count) store.close_input();
    }
}

/// Leases, reads and releases until the end; false if a sample was torn.
bool consume(Store& store, std::vector<std::vector<std::uint64_t>>& batches) {
    bool whole = true;
    for (;;) {
        const auto leased = store.try_lease();
        if (!leased) {
            if (leased.error() == LeaseRefusal::closed) return whole;
            std::this_thread::yield();
            continue;
        }
        std::vector<std::uint64_t>& seen = batches[leased->batch];
        for (std::uint64_t slot = 0; slot < leased->count; ++slot) {
            const std::uint64_t* const from = words_of(store, leased->buffer, slot);
            for (std::uint64_t w = 1; w < words; ++w) whole = whole && from[w] == from[0];
            seen.push_back(from[0]);
        }
        store.release(leased->batch);
    }
}

void run(const Shape& shape) {
    const auto store =
        rondo::test::store_of(shape.batch_size, shape.num_buffers, true, "words:uint64[8]");
    std::atomic<std::int64_t> left{static_cast<std::int64_t>(shape.samples)};
    const auto producers = static_cast<std::size_t>(shape.producers);
    std::vector<std::uint64_t> produced(producers);
    // Each batch is leased once, so each entry is written by one consumer. Each producer may
    // overshoot by one reservation.
    std::vector<std::vector<std::uint64_t>> batches(shape.samples / shape.batch_size + 2 +
                                                    3 * producers + 2 * shape.num_buffers);
    std::atomic<bool> whole{true};
    std::vector<std::thread> threads;
    for (std::size_t p = 0; p < producers; ++p) {
        threads.emplace_back([&, p] { produced[p] = produce(*store, p, left); });
    }
    for (int c = 0; c < shape.consumers; ++c) {
        threads.emplace_back([&] {
            if (!consume(*store, batches)) whole = false;
        });
    }
    for (auto& thread : threads) thread.join();

    CHECK(whole);
    std::vector<std::uint64_t> next(producers);
    for (const auto& batch : batches) {
        for (const std::uint64_t sample : batch) {
            const std::uint64_t producer = sample >> 48U;
            REQUIRE(producer < producers);
            REQUIRE((sample & 0xffffffffffffU) == next[producer]++);
        }
    }
    CHECK(next == produced);
}

}  // namespace

TEST_CASE("Stress: spinning producers and consumers lose nothing and see whole samples") {
    for (const Shape& shape :
         {Shape{1, 1, 2, 2, 4'000}, Shape{1, 3, 3, 2, 6'000}, Shape{3, 2, 3, 1, 8'000},
          Shape{16, 2, 2, 1, 20'000}, Shape{32, 3, 3, 2, 30'000}}) {
        CAPTURE(shape.batch_size, shape.num_buffers, shape.producers, shape.consumers);
        run(shape);
    }
}
