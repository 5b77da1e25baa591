// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_future.hpp>

#include <thread>
#include <vector>

using rondo::ArrayBytes;
using rondo::InsertError;
using rondo::Sample;
using rondo::Server;
using rondo::test::bytes_of;
using rondo::test::contains;
using rondo::test::fill;
using rondo::test::HandPolled;
using rondo::test::ids_of;
using rondo::test::numbers;
using rondo::test::sample_of;
using rondo::test::server_of;
using rondo::test::take;

namespace {

using Inserted = tl::expected<void, InsertError>;

constexpr auto two_arrays = "obs:float32[2,3],reward:int64[]";

/// `count` stacked samples of `two_arrays`, every byte different from its neighbours.
struct Stacked {
    explicit Stacked(std::size_t count) : obs(6 * count), reward(count) {
        for (std::size_t i = 0; i < obs.size(); ++i) obs[i] = static_cast<float>(i) + 0.5F;
        for (std::size_t i = 0; i < reward.size(); ++i) {
            reward[i] = -static_cast<std::int64_t>(i) - 1;
        }
    }
    [[nodiscard]] std::vector<ArrayBytes> arrays() const {
        return {std::as_bytes(std::span{obs}), std::as_bytes(std::span{reward})};
    }

    std::vector<float> obs;
    std::vector<std::int64_t> reward;
};

/// Runs one coroutine to its end and returns what came of it.
template <typename Make>
Inserted run(Make make) {
    HandPolled hand;
    Inserted result = tl::unexpected{InsertError{}};
    asio::co_spawn(
        hand.context(), [&]() -> asio::awaitable<void> { result = co_await make(); },
        asio::detached);
    hand.run();
    return result;
}

}  // namespace

TEST_CASE("Server: every form of insert puts the same bytes in") {
    auto server = server_of({.batch_size = 8, .num_buffers = 1});
    HandPolled hand;
    std::vector<Sample> samples;
    for (std::uint64_t id = 0; id < 8; ++id) samples.push_back(sample_of(id));
    const auto seven = numbers(7, 1);
    const std::vector stacked{bytes_of(seven)};

    CHECK(*server.try_insert(samples[0]));
    CHECK(*server.try_insert(samples[1].arrays()));
    CHECK(run([&] { return server.insert(samples[2]); }).has_value());
    CHECK(run([&] { return server.insert(samples[3].arrays()); }).has_value());
    CHECK(server.blocking_insert(samples[4]).has_value());
    auto future = server.async_insert(samples[5], asio::use_future);
    CHECK(future.get().has_value());
    bool called = false;
    server.async_insert(samples[6], asio::bind_executor(hand.executor(), [&](const Inserted& i) {
                            called = i.has_value();
                        }));
    CHECK_FALSE(called);
    hand.poll();
    CHECK(called);
    CHECK(run([&] { return server.insert_many(stacked, 1); }).has_value());
    CHECK(ids_of(take(server)) == numbers(0, 8));
}

TEST_CASE("Server: a full ring is no error for try_insert, and takes what fits of many") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    const auto ids = numbers(0, 7);
    const std::vector stacked{bytes_of(ids)};
    const auto first = server.try_insert_many(stacked, 7);
    REQUIRE(first.has_value());
    CHECK(*first == 4);
    CHECK(*server.try_insert_many(stacked, 7) == 0);
    CHECK_FALSE(*server.try_insert(sample_of(4)));
    CHECK(ids_of(take(server)) == numbers(0, 2));
    CHECK(*server.try_insert(sample_of(4)));
    CHECK(*server.try_insert_many(std::vector{bytes_of(ids).subspan(5 * 8)}, 2) == 1);
    CHECK(ids_of(take(server)) == numbers(2, 2));
    CHECK(ids_of(take(server)) == numbers(4, 2));
}

TEST_CASE("Server: insert_many crosses as many batches as it needs, in steps") {
    for (const std::uint64_t batch_size : {1U, 2U, 3U, 7U}) {
        CAPTURE(batch_size);
        auto server = server_of({.batch_size = batch_size, .num_buffers = 2}, two_arrays);
        constexpr std::size_t count = 42;
        const Stacked stacked{count};
        const auto arrays = stacked.arrays();
        HandPolled hand;
        bool inserted = false;
        asio::co_spawn(
            hand.context(),
            [&]() -> asio::awaitable<void> {
                inserted = (co_await server.insert_many(arrays, count)).has_value();
            },
            asio::detached);
        std::vector<float> obs;
        std::vector<std::int64_t> reward;
        while (reward.size() < count) {
            hand.poll();
            const auto batch = take(server);
            const auto o = batch.array<float>("obs");
            const auto r = batch.array<std::int64_t>("reward");
            obs.insert(obs.end(), o.begin(), o.end());
            reward.insert(reward.end(), r.begin(), r.end());
        }
        CHECK(inserted);
        CHECK(reward == stacked.reward);
        CHECK(obs == stacked.obs);
    }
}

TEST_CASE("Server: a blocking insert_many goes on as room comes") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    const auto ids = numbers(0, 50);
    const std::vector stacked{bytes_of(ids)};
    tl::expected<void, InsertError> inserted = tl::unexpected{InsertError{}};
    std::thread actor{[&] { inserted = server.blocking_insert_many(stacked, 50); }};
    std::vector<std::uint64_t> got;
    while (got.size() < 50) {
        const auto batch = server.blocking_sample();
        REQUIRE(batch.has_value());
        for (const auto id : ids_of(*batch)) got.push_back(id);
    }
    actor.join();
    CHECK(inserted.has_value());
    CHECK(got == ids);
}

TEST_CASE(
    "Server: arrays that are not the spec's are refused at every entrance, and nothing is in") {
    auto server = server_of({.batch_size = 4, .num_buffers = 1}, two_arrays);
    const Stacked good{2};
    struct Case {
        std::vector<ArrayBytes> arrays;
        std::size_t count;
        const char* said;
    };
    const auto arrays = good.arrays();
    const ArrayBytes obs = arrays[0];
    const ArrayBytes reward = arrays[1];
    const Case cases[] = {
        {{}, 2, "expected 2 arrays, got 0"},
        {{obs}, 2, "expected 2 arrays, got 1"},
        {{obs, reward, reward}, 2, "expected 2 arrays, got 3"},
        {{obs.first(47), reward}, 2, "got 47 bytes"},
        {{obs, reward.first(15)}, 2, "got 15 bytes"},
        {{obs, reward.first(8)}, 2, "got 8 bytes"},
        {{reward, obs}, 2, "obs:float32[2,3]"},
        {{obs, reward}, 1, "for 1 samples"},
        {{obs, reward}, 3, "for 3 samples"},
        {{obs, reward}, 0, "for 0 samples"},
        {{{}, {}}, 1, "got 0 bytes"},
        // 24 times this is 48, modulo 2^64.
        {{obs, reward}, (std::size_t{1} << 61) + 2, "got 48 bytes"},
    };
    HandPolled hand;
    for (const auto& [wrong, count, said] : cases) {
        CAPTURE(said, count);
        std::vector<Inserted> results;
        const auto many = server.try_insert_many(wrong, count);
        REQUIRE_FALSE(many.has_value());
        results.push_back(tl::unexpected{many.error()});
        results.push_back(server.blocking_insert_many(wrong, count));
        results.push_back(run([&, c = count, &w = wrong] { return server.insert_many(w, c); }));
        server.async_insert_many(
            wrong, count,
            asio::bind_executor(hand.executor(), [&](const Inserted& i) { results.push_back(i); }));
        hand.poll();
        if (count == 1) {
            const auto one = server.try_insert(wrong);
            REQUIRE_FALSE(one.has_value());
            results.push_back(tl::unexpected{one.error()});
            results.push_back(run([&, &w = wrong] { return server.insert(w); }));
        }
        for (const auto& result : results) {
            REQUIRE_FALSE(result.has_value());
            CHECK(result.error().code == InsertError::Code::mismatch);
            CHECK(result.error().inserted == 0);
            CHECK_THAT(result.error().message(), contains(said));
        }
    }
    CHECK(server.metrics().samples_inserted_total == 0);
}

TEST_CASE("Server: a mismatch is told at once although the ring is full") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    const Sample other{rondo::test::spec_of("id:uint64[2]")};
    CHECK(server.try_insert(other).error().code == InsertError::Code::mismatch);
    CHECK(server.blocking_insert(other).error().code == InsertError::Code::mismatch);
    CHECK(run([&] { return server.insert(other); }).error().code == InsertError::Code::mismatch);
    auto future = server.async_insert(other, asio::use_future);
    CHECK(future.get().error().code == InsertError::Code::mismatch);
}

TEST_CASE("Server: no samples are inserted at once, in any state") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    const std::vector<ArrayBytes> none(1);
    CHECK(*server.try_insert_many(none, 0) == 0);
    fill(server, 0, 1);
    CHECK(*server.try_insert_many(none, 0) == 0);
    CHECK(server.blocking_insert_many(none, 0).has_value());
    server.close();
    CHECK(run([&] { return server.insert_many(none, 0); }).has_value());
    CHECK(server.metrics().samples_inserted_total == 1);
}

TEST_CASE("Server: arrays of no bytes pass, alone and among others") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2}, "a:uint64[],nothing:float32[0,7]");
    const auto ids = numbers(5, 2);
    const std::vector<ArrayBytes> arrays{bytes_of(ids), {}};
    CHECK(*server.try_insert_many(arrays, 2) == 2);
    const std::vector<ArrayBytes> wrong{bytes_of(ids), bytes_of(ids)};
    CHECK(server.try_insert_many(wrong, 2).error().code == InsertError::Code::mismatch);
    const auto batch = take(server);
    CHECK(ids_of(batch) == ids);
    CHECK(batch.array<float>("nothing").empty());

    auto empty = server_of({.batch_size = 2, .num_buffers = 2}, "nothing:float32[0]");
    const Sample sample{empty.spec()};
    CHECK(*empty.try_insert(sample));
    CHECK_FALSE((*empty.try_sample()).has_value());
    CHECK(empty.blocking_insert(sample).has_value());
    const auto nothing = take(empty);
    CHECK(nothing.size() == 2);
    CHECK(nothing.array<float>(0).empty());
    CHECK(*empty.try_insert_many(sample.arrays(), 100) == 2);  // the other buffer
}

TEST_CASE("Server: after close every form of insert says so, and how many went in before") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    fill(server, 0, 1);
    server.close();
    const Sample sample = sample_of(1);
    CHECK(server.try_insert(sample).error().code == InsertError::Code::closed);
    CHECK(server.try_insert_many(sample.arrays(), 1).error().code == InsertError::Code::closed);
    CHECK(server.blocking_insert(sample).error().code == InsertError::Code::closed);
    CHECK(run([&] { return server.insert(sample); }).error().code == InsertError::Code::closed);
    auto future = server.async_insert(sample, asio::use_future);
    CHECK(future.get().error().code == InsertError::Code::closed);
    CHECK(server.metrics().samples_inserted_total == 1);

    auto other = server_of({.batch_size = 2, .num_buffers = 1});
    const auto ids = numbers(0, 5);
    const std::vector stacked{bytes_of(ids)};
    HandPolled hand;
    Inserted inserted;
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> { inserted = co_await other.insert_many(stacked, 5); },
        asio::detached);
    hand.poll();
    other.close();
    hand.poll();
    REQUIRE_FALSE(inserted.has_value());
    CHECK(inserted.error().code == InsertError::Code::closed);
    CHECK(inserted.error().inserted == 2);
    CHECK_THAT(inserted.error().message(), contains("2 samples inserted before"));
}
