// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/hand_waiter.hpp"
#include "support/stores.hpp"

#include <algorithm>
#include <vector>

using rondo::detail::LeaseRefusal;
using rondo::detail::Place;
using rondo::detail::Reservation;
using rondo::detail::ReserveRefusal;
using rondo::test::HandWaiter;
using rondo::test::put;
using rondo::test::store_of;

TEST_CASE("Store: a store that was closed when empty is at its end") {
    const auto store = store_of(2, 2, true);
    CHECK_FALSE(store->was_closed());
    store->close_input();
    CHECK(store->was_closed());
    CHECK(store->free_slots() == 0);
    CHECK(store->try_reserve(1).error() == ReserveRefusal::closed);
    CHECK(store->try_lease().error() == LeaseRefusal::closed);
    store->close_input();
    CHECK(store->try_lease().error() == LeaseRefusal::closed);
    CHECK(store->counts().samples_reserved == 0);
}

TEST_CASE("Store: after close at any point, exactly what was reserved is delivered") {
    for (const std::uint64_t batch_size : {1U, 2U, 3U}) {
        for (const std::uint64_t num_buffers : {1U, 2U, 3U}) {
            for (const bool short_batch : {false, true}) {
                for (std::uint64_t n = 0; n <= batch_size * num_buffers; ++n) {
                    CAPTURE(batch_size, num_buffers, short_batch, n);
                    const auto store = store_of(batch_size, num_buffers, short_batch);
                    for (std::uint64_t i = 0; i < n; ++i) REQUIRE(put(*store, 1) == 1);
                    store->close_input();
                    CHECK(store->try_reserve(1).error() == ReserveRefusal::closed);
                    std::uint64_t delivered = 0;
                    while (const auto batch = store->try_lease()) {
                        delivered += batch->count;
                        store->release(batch->batch);
                        CHECK(store->try_reserve(1).error() == ReserveRefusal::closed);
                    }
                    CHECK(store->try_lease().error() == LeaseRefusal::closed);
                    const std::uint64_t dropped = short_batch ? 0 : n % batch_size;
                    CHECK(delivered == n - dropped);
                    CHECK(store->counts().samples_dropped_at_close == dropped);
                }
            }
        }
    }
}

TEST_CASE("Store: a commit after close completes the last batch, full or short, and wakes") {
    for (const bool short_batch : {false, true}) {
        for (const std::uint64_t last : {1U, 2U}) {
            CAPTURE(short_batch, last);
            const auto store = store_of(2, 2, short_batch);
            REQUIRE(put(*store, 2) == 2);
            REQUIRE(store->try_lease().has_value());
            const auto pending = store->try_reserve(last);
            HandWaiter consumer;
            REQUIRE(store->batches()->enqueue(consumer, Place::back));
            store->close_input();
            REQUIRE(consumer.use_permit());
            const bool to_come = last == 2 || short_batch;
            const auto refusal = store->try_lease();
            REQUIRE_FALSE(refusal.has_value());
            CHECK(refusal.error() == (to_come ? LeaseRefusal::nothing_yet : LeaseRefusal::closed));
            CHECK(store->batches()->enqueue(consumer, Place::turn) == to_come);
            store->commit(*pending);
            CHECK(consumer.permits() == (to_come ? 1 : 0));
            CHECK(store->try_lease().has_value() == to_come);
            CHECK(store->try_lease().error() == LeaseRefusal::closed);
        }
    }
}

TEST_CASE("Store: a short last batch waits for each of its commits") {
    const auto store = store_of(4, 2, true);
    const auto a = store->try_reserve(1);
    const auto b = store->try_reserve(1);
    const auto c = store->try_reserve(1);
    store->commit(*c);
    store->close_input();
    CHECK(store->try_lease().error() == LeaseRefusal::nothing_yet);
    store->commit(*a);
    CHECK(store->try_lease().error() == LeaseRefusal::nothing_yet);
    store->commit(*b);
    CHECK(store->try_lease()->count == 3);
    CHECK(store->try_lease().error() == LeaseRefusal::closed);
}

TEST_CASE("Store: close wakes every producer and every consumer") {
    const auto store = store_of(1, 1);
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(store->try_lease().has_value());
    std::vector<HandWaiter> producers(3);
    std::vector<HandWaiter> consumers(3);
    for (auto& waiter : producers) REQUIRE(store->room()->enqueue(waiter, Place::back));
    for (auto& waiter : consumers) REQUIRE(store->batches()->enqueue(waiter, Place::back));
    store->close_input();
    const auto woken = [](const HandWaiter& waiter) { return waiter.permits() == 1; };
    CHECK(std::all_of(producers.begin(), producers.end(), woken));
    CHECK(std::all_of(consumers.begin(), consumers.end(), woken));
    CHECK_FALSE(store->room()->enqueue(producers[0], Place::back));
    CHECK_FALSE(store->batches()->enqueue(consumers[0], Place::back));
    CHECK(store->counts().wakes == 6);
}

TEST_CASE("Store: the release of a batch after close wakes nobody and opens nothing") {
    const auto store = store_of(2, 1, true);
    REQUIRE(put(*store, 2) == 2);
    const auto batch = store->try_lease();
    store->close_input();
    store->release(batch->batch);
    CHECK(store->free_slots() == 0);
    CHECK(store->try_reserve(1).error() == ReserveRefusal::closed);
    CHECK(store->try_lease().error() == LeaseRefusal::closed);
    CHECK(store->counts().wakes == 0);
}
