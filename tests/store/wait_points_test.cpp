// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/hand_waiter.hpp"
#include "support/stores.hpp"

#include <vector>

using rondo::detail::LeasedNext;
using rondo::detail::Place;
using rondo::detail::WaitList;
using rondo::test::HandWaiter;
using rondo::test::put;
using rondo::test::store_of;

TEST_CASE("Store: a wait list keeps its order through links, unlinks and takes") {
    HandWaiter a, b, c, d;
    WaitList list;
    CHECK(list.empty());
    list.link(a, Place::back);
    list.link(b, Place::back);
    list.link(c, Place::back);
    list.link(d, Place::back);
    CHECK(list.size() == 4);
    CHECK(list.unlink(c));
    CHECK_FALSE(list.unlink(c));  // a b d
    list.take(2).wake_all();
    CHECK(a.permits() == 1);
    CHECK(b.permits() == 1);
    CHECK(d.permits() == 0);
    // Two that are refused come back to their turns, in whatever order they do.
    list.link(b, Place::turn);
    list.link(a, Place::turn);  // a b d
    list.take(1).wake_all();
    CHECK(a.permits() == 2);
    CHECK(b.permits() == 1);
    CHECK(list.unlink(d));
    list.take(100).wake_all();
    CHECK(b.permits() == 2);
    CHECK(list.empty());
    list.take(100).wake_all();
    list.link(a, Place::turn);
    list.take(0).wake_all();
    CHECK(list.size() == 1);
    CHECK(list.unlink(a));
    CHECK(list.empty());
}

TEST_CASE("Store: a wait list gives out those that were marked, in their order") {
    HandWaiter a, b, c;
    WaitList list;
    list.link(a, Place::back, true);
    list.link(b, Place::back);
    list.link(c, Place::back, true);
    list.take_marked().wake_all();
    CHECK(a.permits() == 1);
    CHECK(b.permits() == 0);
    CHECK(c.permits() == 1);
    CHECK(list.size() == 1);
    list.take_marked().wake_all();
    CHECK(list.unlink(b));
}

// Found by the model: nobody's wake is lost, and yet nobody ever goes on.
TEST_CASE("Store: a consumer learns that the ring has come round to its own lease") {
    const auto store = store_of(1, 2);
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(store->try_lease().has_value());  // batch 0, which this thread keeps
    HandWaiter other;
    HandWaiter mine;
    REQUIRE(store->batches()->enqueue(other, Place::back));
    REQUIRE(store->batches(LeasedNext::refuse_own)->enqueue(mine, Place::back));
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(other.use_permit());
    REQUIRE(mine.permits() == 0);
    // Batch 1 goes to the other one. Batch 2 lies where batch 0 is.
    REQUIRE(store->try_lease().has_value());
    store->release(1);
    CHECK(mine.use_permit());
    CHECK(store->counts().wakes == 2);
    CHECK(store->refuses(LeasedNext::refuse_own));
    CHECK_FALSE(store->batches(LeasedNext::refuse_own)->enqueue(mine, Place::turn));
    CHECK(store->batches()->enqueue(other, Place::back));  // may wait for this thread
    CHECK(store->batches()->cancel(other));
}

TEST_CASE("Store: a waiter is not linked when its condition holds already") {
    const auto store = store_of(1, 1);
    HandWaiter producer;
    HandWaiter consumer;
    CHECK_FALSE(store->room()->enqueue(producer, Place::back));
    CHECK(store->batches()->enqueue(consumer, Place::back));
    REQUIRE(put(*store, 1) == 1);
    CHECK(consumer.use_permit());
    CHECK_FALSE(store->batches()->enqueue(consumer, Place::back));
    CHECK(store->room()->enqueue(producer, Place::back));
    CHECK(store->counts().producer_waits == 1);
    CHECK(store->counts().consumer_waits == 1);
    CHECK(store->counts().producers_waiting == 1);
    CHECK(store->counts().consumers_waiting == 0);
    CHECK(store->room()->cancel(producer));
    CHECK_FALSE(store->room()->cancel(producer));
    CHECK_FALSE(store->batches()->cancel(consumer));
}

TEST_CASE("Store: one release wakes as many producers as there is room for now") {
    // Leases come back out of order: the first release makes no room, the second makes room for
    // two.
    const auto store = store_of(1, 2);
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(store->try_lease().has_value());
    REQUIRE(store->try_lease().has_value());
    std::vector<HandWaiter> producers(3);
    for (auto& waiter : producers) REQUIRE(store->room()->enqueue(waiter, Place::back));
    store->release(1);
    CHECK(producers[0].permits() == 0);
    store->release(0);
    CHECK(producers[0].permits() == 1);
    CHECK(producers[1].permits() == 1);
    CHECK(producers[2].permits() == 0);
    CHECK(store->room()->cancel(producers[2]));
}

TEST_CASE("Store: one completion wakes as many consumers as batches are ready now") {
    const auto store = store_of(1, 3);
    std::vector<HandWaiter> consumers(3);
    for (auto& waiter : consumers) REQUIRE(store->batches()->enqueue(waiter, Place::back));
    const auto first = store->try_reserve(1);
    REQUIRE(put(*store, 1) == 1);
    CHECK(consumers[0].permits() == 0);  // batch 1 is complete, batch 0 comes first
    store->commit(*first);
    CHECK(consumers[0].permits() == 1);
    CHECK(consumers[1].permits() == 1);
    CHECK(consumers[2].permits() == 0);
    CHECK(store->batches()->cancel(consumers[2]));
}

TEST_CASE("Store: a permit that is passed on reaches the next waiter, if there is anything") {
    const auto store = store_of(2, 1);
    REQUIRE(put(*store, 2) == 2);
    std::vector<HandWaiter> producers(3);
    for (auto& waiter : producers) REQUIRE(store->room()->enqueue(waiter, Place::back));
    store->room()->pass_on();
    store->room()->pass_on_one();
    CHECK(producers[0].permits() == 0);  // full
    REQUIRE(store->try_lease().has_value());
    store->release(0);
    CHECK(producers[0].use_permit());
    CHECK(producers[1].use_permit());
    CHECK(producers[2].permits() == 0);
    REQUIRE(store->room()->cancel(producers[2]));

    // Two are waiting, two slots are free: `pass_on` would wake both.
    REQUIRE(put(*store, 2) == 2);
    for (auto& waiter : producers) REQUIRE(store->room()->enqueue(waiter, Place::back));
    REQUIRE(store->room()->cancel(producers[0]));
    REQUIRE(store->try_lease().has_value());
    store->release(1);
    CHECK(producers[1].use_permit());
    CHECK(producers[2].use_permit());
    HandWaiter late;
    CHECK_FALSE(store->room()->enqueue(late, Place::back));
}

TEST_CASE("Store: passing one permit on wakes one") {
    const auto store = store_of(4, 1);
    REQUIRE(put(*store, 4) == 4);
    std::vector<HandWaiter> producers(6);
    for (auto& waiter : producers) REQUIRE(store->room()->enqueue(waiter, Place::back));
    REQUIRE(store->try_lease().has_value());
    store->release(0);
    for (std::size_t i = 0; i < 4; ++i) CHECK(producers[i].use_permit());
    store->room()->pass_on_one();
    CHECK(producers[4].use_permit());
    CHECK(producers[5].permits() == 0);
    store->room()->pass_on();
    CHECK(producers[5].use_permit());
}

TEST_CASE("Store: a refused waiter keeps its place at the head") {
    const auto store = store_of(1, 1);
    REQUIRE(put(*store, 1) == 1);
    HandWaiter first;
    HandWaiter second;
    REQUIRE(store->room()->enqueue(first, Place::back));
    REQUIRE(store->room()->enqueue(second, Place::back));
    for (std::uint64_t round = 0; round < 5; ++round) {
        REQUIRE(store->try_lease().has_value());
        store->release(round);
        REQUIRE(first.use_permit());
        REQUIRE(second.permits() == 0);
        REQUIRE(put(*store, 1) == 1);  // somebody else is faster
        REQUIRE(store->room()->enqueue(first, Place::turn));
    }
    CHECK(store->counts().producer_waits == 2);  // a refusal is no new wait
    CHECK(store->counts().wakes == 5);
    CHECK(store->room()->cancel(first));
    CHECK(store->room()->cancel(second));
}

TEST_CASE("Store: the longest wait is that of the head, over all its refusals") {
    const auto store = store_of(1, 1);
    REQUIRE(put(*store, 1) == 1);
    HandWaiter first;
    REQUIRE(store->room()->enqueue(first, Place::back));
    REQUIRE(store->try_lease().has_value());
    store->release(0);
    const auto refused_at = std::chrono::steady_clock::now();
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(store->room()->enqueue(first, Place::turn));
    const auto least = std::chrono::steady_clock::now() - refused_at;
    CHECK(store->counts().longest_producer_wait >= least);  // it began before that refusal
    CHECK(store->counts().longest_consumer_wait.count() == 0);
    CHECK(store->room()->cancel(first));
    CHECK(store->counts().longest_producer_wait.count() == 0);
}

TEST_CASE("Store: a wait point keeps its store alive") {
    auto store = store_of(1, 1);
    REQUIRE(put(*store, 1) == 1);
    const auto room = store->room();
    const std::weak_ptr<rondo::detail::Store> watched = store;
    store.reset();
    CHECK_FALSE(watched.expired());
    HandWaiter waiter;
    CHECK(room->enqueue(waiter, Place::back));
    CHECK(room->cancel(waiter));
}

TEST_CASE("Store: a wait for a batch has something to say while the next buffer is leased") {
    const auto store = store_of(1, 1);
    CHECK_FALSE(store->batches()->warning().has_value());
    CHECK_FALSE(store->room()->warning().has_value());
    REQUIRE(put(*store, 1) == 1);
    REQUIRE(store->try_lease().has_value());
    const auto warning = store->batches()->warning();
    REQUIRE(warning.has_value());
    CHECK(warning->after == std::chrono::seconds{10});
    CHECK_THAT(std::string{warning->line}, rondo::test::contains("still leased"));
    store->release(0);
    CHECK_FALSE(store->batches()->warning().has_value());
}
