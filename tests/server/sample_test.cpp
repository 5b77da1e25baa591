// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_future.hpp>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

using rondo::Batch;
using rondo::Sample;
using rondo::SampleError;
using rondo::Server;
using rondo::WhenNextLeased;
using rondo::test::fill;
using rondo::test::HandPolled;
using rondo::test::ids_of;
using rondo::test::numbers;
using rondo::test::sample_of;
using rondo::test::server_of;
using rondo::test::take;
using namespace std::chrono_literals;

namespace {

using Sampled = tl::expected<Batch, SampleError>;

/// Runs the coroutine form until nothing is left to do; nothing if it still waits.
std::optional<Sampled> sample_in(HandPolled& hand, Server& server,
                                 rondo::SampleOptions options = {}) {
    std::optional<Sampled> result;
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> { result = co_await server.sample(options); },
        asio::detached);
    hand.poll();
    return result;
}

std::optional<Sampled> async_sample_in(HandPolled& hand, Server& server,
                                       rondo::SampleOptions options = {}) {
    std::optional<Sampled> result;
    server.async_sample(
        asio::bind_executor(hand.executor(), [&](Sampled sampled) { result = std::move(sampled); }),
        options);
    hand.poll();
    return result;
}

SampleError::Code code_of(const Sampled& sampled) {
    REQUIRE_FALSE(sampled.has_value());
    return sampled.error().code;
}

}  // namespace

TEST_CASE("Server: every form of sample takes the next batch") {
    auto server = server_of({.batch_size = 2, .num_buffers = 5});
    fill(server, 0, 10);
    HandPolled hand;
    CHECK(ids_of(take(server)) == numbers(0, 2));
    CHECK(ids_of(**sample_in(hand, server)) == numbers(2, 2));
    CHECK(ids_of(**async_sample_in(hand, server)) == numbers(4, 2));
    CHECK(ids_of(*server.async_sample(asio::use_future).get()) == numbers(6, 2));
    const auto last = server.blocking_sample();
    CHECK(ids_of(*last) == numbers(8, 2));
    CHECK(last->index() == 4);
    CHECK_FALSE((*server.try_sample()).has_value());
}

TEST_CASE("Server: each batch goes to one consumer, and in the order of their waits") {
    auto server = server_of({.batch_size = 1, .num_buffers = 3});
    HandPolled hand;
    std::vector<std::pair<int, std::uint64_t>> got;
    for (int consumer = 0; consumer < 3; ++consumer) {
        server.async_sample(asio::bind_executor(hand.executor(), [&, consumer](Sampled sampled) {
            got.emplace_back(consumer, sampled->index());
        }));
    }
    hand.poll();
    fill(server, 0, 3);
    hand.poll();
    CHECK(got == std::vector<std::pair<int, std::uint64_t>>{{0, 0}, {1, 1}, {2, 2}});
}

TEST_CASE("Server: after close every form of sample delivers what is complete, then says closed") {
    for (const bool short_batch : {false, true}) {
        CAPTURE(short_batch);
        auto server =
            server_of({.batch_size = 2, .num_buffers = 3, .deliver_short_batch = short_batch});
        fill(server, 0, 5);
        server.close();
        CHECK(ids_of(take(server)) == numbers(0, 2));
        HandPolled hand;
        CHECK(ids_of(**sample_in(hand, server)) == numbers(2, 2));
        if (short_batch) {
            const auto last = server.blocking_sample();
            REQUIRE(last.has_value());
            CHECK(last->size() == 1);
            CHECK(ids_of(*last) == numbers(4, 1));
            CHECK(last->array<std::byte>("id").size() == 8);
        }
        CHECK(server.try_sample().error().code == SampleError::Code::closed);
        CHECK(code_of(*sample_in(hand, server)) == SampleError::Code::closed);
        CHECK(code_of(*async_sample_in(hand, server)) == SampleError::Code::closed);
        CHECK(code_of(server.blocking_sample()) == SampleError::Code::closed);
        CHECK(server.metrics().samples_dropped_at_close == (short_batch ? 0 : 1));
    }
}

TEST_CASE("Server: a thread that leases the next batch's buffer is not left to wait for itself") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    fill(server, 0, 2);
    auto one = server.blocking_sample();
    auto two = server.blocking_sample();
    REQUIRE(two.has_value());
    const auto stuck = server.blocking_sample();
    CHECK(code_of(stuck) == SampleError::Code::next_leased);
    CHECK_THAT(stuck.error().message(), rondo::test::contains("num_buffers"));
    CHECK(code_of(server.blocking_sample({.deadline = 1h})) == SampleError::Code::next_leased);
    two->release();  // a free buffer, but not the one that the next batch lies in
    CHECK(code_of(server.blocking_sample({.deadline = 1h})) == SampleError::Code::next_leased);
    one->release();
    CHECK(code_of(server.blocking_sample({.deadline = 1ms})) == SampleError::Code::timed_out);
    fill(server, 2, 1);
    CHECK(ids_of(*server.blocking_sample()) == numbers(2, 1));
}

TEST_CASE("Server: who asks to wait does, although it leases the next batch's buffer itself") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    auto held = server.blocking_sample();
    CHECK(code_of(server.blocking_sample(
              {.deadline = 1ms, .when_next_leased = WhenNextLeased::wait})) ==
          SampleError::Code::timed_out);
    std::thread other{[&, batch = std::move(*held)]() mutable {
        while (server.metrics().consumers_waiting == 0) std::this_thread::yield();
        batch.release();
        (void)server.blocking_insert(sample_of(1));
    }};
    const auto next = server.blocking_sample({.when_next_leased = WhenNextLeased::wait});
    other.join();
    CHECK(ids_of(*next) == numbers(1, 1));
}

TEST_CASE("Server: a thread waits for a buffer that another thread leases") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    fill(server, 0, 2);
    std::optional<Batch> theirs;
    std::thread{[&] { theirs = *server.blocking_sample(); }}.join();
    const auto mine = server.blocking_sample();
    CHECK(code_of(server.blocking_sample({.deadline = 1ms})) == SampleError::Code::timed_out);
    CHECK(code_of(server.blocking_sample({.when_next_leased = WhenNextLeased::fail})) ==
          SampleError::Code::next_leased);
    theirs.reset();
    fill(server, 2, 1);
    CHECK(ids_of(*server.blocking_sample()) == numbers(2, 1));
}

TEST_CASE("Server: coroutines wait for a leased buffer, unless they ask to fail") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    HandPolled hand;
    auto held = take(server);
    const rondo::SampleOptions fail{.when_next_leased = WhenNextLeased::fail};
    CHECK(code_of(*sample_in(hand, server, fail)) == SampleError::Code::next_leased);
    CHECK(code_of(*async_sample_in(hand, server, fail)) == SampleError::Code::next_leased);

    std::vector<std::uint64_t> got;
    for (const auto rule : {WhenNextLeased::by_form, WhenNextLeased::wait}) {
        server.async_sample(
            asio::bind_executor(hand.executor(),
                                [&](Sampled sampled) { got.push_back(ids_of(*sampled)[0]); }),
            {.when_next_leased = rule});
    }
    hand.poll();
    CHECK(server.metrics().consumers_waiting == 2);
    held.release();
    fill(server, 1, 1);
    hand.poll();
    fill(server, 2, 1);
    hand.poll();
    CHECK(got == numbers(1, 2));
}

TEST_CASE("Server: a closed server whose next buffer is leased is closed, not stuck") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    const auto held = take(server);
    server.close();
    HandPolled hand;
    CHECK(code_of(server.blocking_sample()) == SampleError::Code::closed);
    CHECK(code_of(*sample_in(hand, server, {.when_next_leased = WhenNextLeased::fail})) ==
          SampleError::Code::closed);
}

TEST_CASE("Server: who asked to fail is told although the buffer comes next during the wait") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    fill(server, 0, 1);
    const auto held = take(server);  // batch 0: batch 2 needs its buffer
    HandPolled hand;
    std::optional<Batch> first;
    std::optional<SampleError::Code> second;
    server.async_sample(asio::bind_executor(hand.executor(), [&](Sampled sampled) {
        if (sampled) first = *std::move(sampled);
    }));
    server.async_sample(
        asio::bind_executor(hand.executor(),
                            [&](const Sampled& sampled) { second = sampled.error().code; }),
        {.when_next_leased = WhenNextLeased::fail});
    hand.poll();
    CHECK(server.metrics().consumers_waiting == 2);
    fill(server, 1, 1);
    hand.poll();
    REQUIRE(first.has_value());
    CHECK(second == SampleError::Code::next_leased);
    CHECK(server.metrics().consumers_waiting == 0);
}

TEST_CASE(
    "Server: a waiting thread is told when another one takes the batch before its own buffer") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    fill(server, 0, 1);
    std::optional<Batch> theirs;
    std::optional<SampleError::Code> told;
    std::thread learner{[&] {
        const auto held = server.blocking_sample();
        const auto next = server.blocking_sample();  // batch 1, whose buffer is free
        if (!next) told = next.error().code;
    }};
    while (server.metrics().consumers_waiting == 0) std::this_thread::yield();
    // The batch goes to whoever is faster; if that is us, the learner waits for itself.
    (void)server.blocking_insert(sample_of(1));
    if (auto batch = server.try_sample(); batch && *batch) theirs = *std::move(*batch);
    learner.join();
    CHECK(told.has_value() == theirs.has_value());
    if (told) CHECK(told == SampleError::Code::next_leased);
}
