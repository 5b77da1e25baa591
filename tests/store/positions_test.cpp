// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/stores.hpp"

#include <thread>
#include <utility>
#include <vector>

using rondo::detail::LeasedNext;
using rondo::detail::LeaseRefusal;
using rondo::detail::Reservation;
using rondo::detail::ReserveRefusal;
using rondo::test::put;
using rondo::test::read_id;
using rondo::test::store_of;
using rondo::test::write_id;

TEST_CASE("Store: one sample goes from reserve to release") {
    const auto store = store_of(1, 1);
    CHECK(store->free_slots() == 1);
    const auto slot = store->try_reserve(1);
    REQUIRE(slot.has_value());
    CHECK(slot->buffer == 0);
    CHECK(slot->first_slot == 0);
    CHECK(slot->count == 1);
    CHECK(store->free_slots() == 0);
    CHECK(store->try_lease().error() == LeaseRefusal::nothing_yet);

    write_id(*store, 0, 0, 42);
    store->commit(*slot);
    CHECK(store->try_reserve(1).error() == ReserveRefusal::full);
    const auto batch = store->try_lease();
    REQUIRE(batch.has_value());
    CHECK(batch->batch == 0);
    CHECK(batch->buffer == 0);
    CHECK(batch->count == 1);
    CHECK(read_id(*store, 0, 0) == 42);
    CHECK(store->try_lease().error() == LeaseRefusal::nothing_yet);
    CHECK(store->try_reserve(1).error() == ReserveRefusal::full);

    store->release(batch->batch);
    CHECK(store->free_slots() == 1);
    REQUIRE(store->try_reserve(1).has_value());
}

TEST_CASE("Store: a reservation never crosses the end of a batch") {
    const auto store = store_of(4, 3);
    CHECK(store->try_reserve(3)->count == 3);
    const auto rest = store->try_reserve(100);
    CHECK(rest->first_slot == 3);
    CHECK(rest->count == 1);
    const auto next = store->try_reserve(100);
    CHECK(next->buffer == 1);
    CHECK(next->first_slot == 0);
    CHECK(next->count == 4);
    CHECK(store->free_slots() == 4);
    CHECK(store->try_reserve(~std::uint64_t{0})->count == 4);
    CHECK(store->free_slots() == 0);
}

TEST_CASE("Store: a full ring declines until a batch is released") {
    for (const std::uint64_t batch_size : {1U, 2U, 5U}) {
        for (const std::uint64_t num_buffers : {1U, 2U, 3U}) {
            CAPTURE(batch_size, num_buffers);
            const auto store = store_of(batch_size, num_buffers);
            for (std::uint64_t b = 0; b < num_buffers; ++b) REQUIRE(put(*store, batch_size) > 0);
            CHECK(store->try_reserve(1).error() == ReserveRefusal::full);
            const auto batch = store->try_lease();
            REQUIRE(batch.has_value());
            CHECK(store->try_reserve(1).error() == ReserveRefusal::full);
            store->release(batch->batch);
            CHECK(store->free_slots() == batch_size);
            for (std::uint64_t i = 0; i < batch_size; ++i) CHECK(put(*store, 1) == 1);
            CHECK(store->try_reserve(1).error() == ReserveRefusal::full);
        }
    }
}

TEST_CASE("Store: commits in any order complete a batch exactly with the last one") {
    const std::vector<std::vector<int>> orders{{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                               {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const auto& order : orders) {
        const auto store = store_of(6, 2);
        std::vector<Reservation> slots;
        for (const std::uint64_t n : {1U, 2U, 3U}) slots.push_back(*store->try_reserve(n));
        for (const int i : order) {
            CHECK_FALSE(store->try_lease().has_value());
            store->commit(slots[static_cast<std::size_t>(i)]);
        }
        CHECK(store->try_lease()->count == 6);
    }
}

TEST_CASE("Store: batches that complete out of order are leased in order") {
    const auto store = store_of(2, 3);
    const auto first = store->try_reserve(2);
    CHECK(put(*store, 2) == 2);
    CHECK(put(*store, 2) == 2);
    CHECK(store->try_lease().error() == LeaseRefusal::nothing_yet);
    CHECK(store->counts().samples_ready == 0);
    store->commit(*first);
    CHECK(store->counts().samples_ready == 6);
    for (std::uint64_t b = 0; b < 3; ++b) CHECK(store->try_lease()->batch == b);
}

TEST_CASE("Store: releases in any order make room in order only") {
    const auto store = store_of(2, 3);
    for (int b = 0; b < 3; ++b) REQUIRE(put(*store, 2) == 2);
    for (int b = 0; b < 3; ++b) REQUIRE(store->try_lease().has_value());
    store->release(2);
    store->release(1);
    CHECK(store->free_slots() == 0);  // buffer 0 comes first
    CHECK(store->try_reserve(1).error() == ReserveRefusal::full);
    store->release(0);
    CHECK(store->free_slots() == 6);
    CHECK(store->try_reserve(6)->buffer == 0);
    CHECK(store->try_reserve(6)->buffer == 1);
    CHECK(store->try_reserve(6)->buffer == 2);
}

TEST_CASE("Store: the buffer index wraps around again and again") {
    for (const std::uint64_t num_buffers : {1U, 2U, 3U}) {
        CAPTURE(num_buffers);
        const auto store = store_of(3, num_buffers);
        std::uint64_t id = 0;
        std::uint64_t read = 0;
        for (std::uint64_t batch = 0; batch < 20; ++batch) {
            for (int i = 0; i < 3; ++i) {
                const auto slot = store->try_reserve(1);
                REQUIRE(slot.has_value());
                REQUIRE(slot->buffer == batch % num_buffers);
                write_id(*store, slot->buffer, slot->first_slot, id++);
                store->commit(*slot);
            }
            if (batch + 1 < num_buffers) continue;
            const auto leased = store->try_lease();  // the oldest, with all others still full
            REQUIRE(leased.has_value());
            REQUIRE(leased->batch == batch + 1 - num_buffers);
            for (std::uint64_t i = 0; i < 3; ++i) {
                REQUIRE(read_id(*store, leased->buffer, i) == read++);
            }
            store->release(leased->batch);
        }
    }
}

TEST_CASE("Store: positions far beyond 32 bits behave like those near 0") {
    // Samples of no bytes allow batches of 2^60, so that a few of them reach far positions.
    const std::uint64_t batch_size = std::uint64_t{1} << 60;
    const auto store = store_of(batch_size, 3, true, "nothing:uint8[0]");
    for (std::uint64_t batch = 0; batch < 6; ++batch) {
        CHECK(store->try_reserve(batch_size - 1)->count == batch_size - 1);
        const auto last = store->try_reserve(batch_size);
        REQUIRE(last->count == 1);
        REQUIRE(last->first_slot == batch_size - 1);
        store->commit({.buffer = batch % 3, .first_slot = 0, .count = batch_size - 1});
        CHECK_FALSE(store->try_lease().has_value());
        store->commit(*last);
        const auto leased = store->try_lease();
        REQUIRE(leased.has_value());
        REQUIRE(leased->batch == batch);
        store->release(batch);
        CHECK(store->free_slots() == 3 * batch_size);
    }
    CHECK(store->counts().samples_reserved == 6 * batch_size);
    CHECK(put(*store, 5) == 5);
    store->close_input();
    CHECK(store->counts().samples_reserved == 6 * batch_size + 5);
    CHECK(store->try_reserve(1).error() == ReserveRefusal::closed);
    CHECK(store->try_lease()->count == 5);
    CHECK(store->try_lease().error() == LeaseRefusal::closed);
}

TEST_CASE("Store: the counts follow every step") {
    const auto store = store_of(2, 2);
    auto counts = store->counts();
    CHECK(counts.samples_reserved == 0);
    CHECK_FALSE(counts.input_closed);
    CHECK(counts.oldest_sample_age.count() == 0);

    const auto one = store->try_reserve(1);
    CHECK(store->counts().samples_reserved == 1);
    CHECK(store->counts().oldest_sample_age.count() == 0);
    store->commit(*one);
    CHECK(store->counts().samples_ready == 0);
    CHECK(put(*store, 1) == 1);
    CHECK(store->counts().samples_ready == 2);
    CHECK(put(*store, 1) == 1);
    counts = store->counts();
    CHECK(counts.samples_reserved == 3);
    CHECK(counts.samples_ready == 2);

    const auto leased = store->try_lease();
    CHECK(leased->counts.batches_leased == 1);
    CHECK(leased->counts.batches_released == 0);
    CHECK(leased->counts.samples_ready == 0);
    CHECK(leased->counts.samples_reserved == 3);
    store->release(0);
    counts = store->counts();
    CHECK(counts.batches_leased == 1);
    CHECK(counts.batches_released == 1);
    CHECK(counts.samples_dropped_at_close == 0);
    store->close_input();
    counts = store->counts();
    CHECK(counts.input_closed);
    CHECK(counts.samples_dropped_at_close == 1);
    CHECK(counts.samples_reserved == 3);
}

TEST_CASE("Store: the age is that of the next batch to be leased") {
    const auto store = store_of(2, 2);
    const auto before = std::chrono::steady_clock::now();
    CHECK(put(*store, 1) == 1);
    const auto between = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() == between) {
    }
    const auto age = store->counts().oldest_sample_age;
    const auto most = std::chrono::steady_clock::now() - before;
    CHECK(age.count() > 0);
    CHECK(age <= most);
    CHECK(put(*store, 1) == 1);
    REQUIRE(store->try_lease().has_value());
    CHECK(store->counts().oldest_sample_age.count() == 0);  // leased: nothing waits any more
    store->release(0);
    CHECK(store->counts().oldest_sample_age.count() == 0);
}

TEST_CASE("Store: the age of a leased batch reaches back to its oldest commit") {
    using Clock = std::chrono::steady_clock;
    const auto store = store_of(3, 2);
    const auto before = Clock::now();
    const auto first = store->try_reserve(1);
    CHECK(put(*store, 1) == 1);  // overtakes the first slot: the oldest commit of the batch
    const auto oldest = Clock::now();
    while (Clock::now() - oldest < std::chrono::milliseconds{2}) {
    }
    store->commit(*first);
    CHECK(store->counts().last_batch_age.count() == 0);
    CHECK(put(*store, 1) == 1);
    const auto complete = Clock::now();
    const auto age = store->try_lease()->counts.last_batch_age;
    CHECK(age >= complete - oldest);
    CHECK(age <= Clock::now() - before);

    CHECK(put(*store, 3) == 3);
    const auto second = store->try_lease()->counts.last_batch_age;
    CHECK(second <= Clock::now() - complete);
    CHECK(store->counts().last_batch_age == second);
    store->release(0);
    CHECK(put(*store, 3) == 3);  // in the buffer of batch 0
    const auto third = store->try_lease()->counts.last_batch_age;
    CHECK(third <= Clock::now() - complete);
    CHECK(store->counts().last_batch_age == third);
}

TEST_CASE("Store: knows who leases the buffer that the next batch needs") {
    const auto store = store_of(1, 2);
    CHECK_FALSE(store->refuses(LeasedNext::refuse));
    CHECK_FALSE(store->refuses(LeasedNext::refuse_own));
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(put(*store, 1) == 1);
    CHECK_FALSE(store->refuses(LeasedNext::refuse));
    REQUIRE(store->try_lease().has_value());
    CHECK_FALSE(store->refuses(LeasedNext::refuse));
    CHECK_FALSE(store->refuses(LeasedNext::refuse_own));
    REQUIRE(store->try_lease().has_value());
    CHECK(store->refuses(LeasedNext::refuse));
    CHECK(store->refuses(LeasedNext::refuse_own));
    bool by_another = true;
    std::thread{[&] { by_another = store->refuses(LeasedNext::refuse_own); }}.join();
    CHECK_FALSE(by_another);

    // A free buffer does not help: the next batch lies in the other.
    store->release(1);
    CHECK(store->refuses(LeasedNext::refuse_own));
    store->release(0);
    CHECK_FALSE(store->refuses(LeasedNext::refuse));
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(put(*store, 1) == 1);
    std::thread{[&] { (void)store->try_lease(); }}.join();
    REQUIRE(store->try_lease().has_value());
    CHECK(store->refuses(LeasedNext::refuse));
    CHECK_FALSE(store->refuses(LeasedNext::refuse_own));  // it is the other thread's
}
