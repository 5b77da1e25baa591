// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/stores.hpp"

#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using rondo::Batch;
using rondo::Sample;
using rondo::Server;
using rondo::test::fill;
using rondo::test::ids_of;
using rondo::test::numbers;
using rondo::test::sample_of;
using rondo::test::server_of;
using rondo::test::spec_of;
using rondo::test::take;

static_assert(!std::is_copy_constructible_v<Batch> && std::is_nothrow_move_constructible_v<Batch> &&
              std::is_nothrow_move_assignable_v<Batch>);
static_assert(!std::is_copy_constructible_v<Server> &&
              std::is_nothrow_move_constructible_v<Server>);

TEST_CASE("Server: a batch is its arrays, each one block in place") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2}, "obs:float32[3],done:bool[]");
    Sample sample{server.spec()};
    for (int i = 0; i < 2; ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
            sample.array<float>("obs")[j] = static_cast<float>(10 * i) + static_cast<float>(j);
        }
        sample.array<bool>("done")[0] = i == 1;
        REQUIRE(*server.try_insert(sample));
    }
    const Batch batch = take(server);
    CHECK(batch.size() == 2);
    CHECK(batch.index() == 0);
    CHECK(batch.spec() == server.spec());
    CHECK_FALSE(batch.released());
    const auto obs = batch.array<float>("obs");
    CHECK(std::vector(obs.begin(), obs.end()) == std::vector<float>{0, 1, 2, 10, 11, 12});
    CHECK(batch.array<float>(0).data() == obs.data());
    CHECK(reinterpret_cast<std::uintptr_t>(obs.data()) % 64 == 0);
    const auto done = batch.array<bool>("done");
    CHECK(std::vector(done.begin(), done.end()) == std::vector{false, true});
    CHECK(batch.array<std::byte>("obs").size() == 24);
}

TEST_CASE("Server: a batch gives its buffer back once, by whatever ends it") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    const auto released = [&] { return server.metrics().batches_released_total; };
    std::uint64_t next = 0;
    const auto lease = [&] {
        fill(server, next++, 1);
        return take(server);
    };
    {
        const Batch batch = lease();
        CHECK(released() == 0);
    }
    CHECK(released() == 1);
    {
        Batch batch = lease();
        batch.release();
        CHECK(batch.released());
        CHECK(released() == 2);
        batch.release();
    }
    CHECK(released() == 2);
    {
        Batch batch = lease();
        Batch moved{std::move(batch)};
        CHECK(batch.released());  // NOLINT(bugprone-use-after-move): that is the contract
        batch.release();
        CHECK(released() == 2);
        CHECK(ids_of(moved) == numbers(2, 1));
        CHECK(moved.index() == 2);
    }
    CHECK(released() == 3);
    CHECK(server.metrics().live_leases == 0);
}

TEST_CASE("Server: move assignment releases what was held") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    fill(server, 0, 2);
    Batch first = take(server);
    Batch second = take(server);
    first = std::move(second);
    CHECK(server.metrics().batches_released_total == 1);
    CHECK(ids_of(first) == numbers(1, 1));
    CHECK(first.index() == 1);
    CHECK(second.released());  // NOLINT(bugprone-use-after-move)
    Batch& self = first;
    first = std::move(self);
    CHECK_FALSE(first.released());
    CHECK(ids_of(first) == numbers(1, 1));
    first = std::move(second);
    CHECK(first.released());
    CHECK(server.metrics().batches_released_total == 2);
}

TEST_CASE("Server: a batch outlives its server, with its memory") {
    std::optional<Batch> kept;
    {
        auto server = server_of({.batch_size = 3, .num_buffers = 2});
        fill(server, 7, 3);
        kept = take(server);
    }
    CHECK(ids_of(*kept) == numbers(7, 3));
    CHECK(kept->spec() == rondo::test::id_spec());
    std::thread{[batch = *std::move(kept)]() mutable { batch.release(); }}.join();
}

TEST_CASE("Server: nobody writes to a batch while it is leased") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    fill(server, 0, 2);
    const Batch kept = take(server);
    for (std::uint64_t id = 2;; id += 2) {
        if (id < 4) fill(server, id, 2);
        if (!*server.try_insert(sample_of(99))) break;
    }
    CHECK(ids_of(kept) == numbers(0, 2));
    const Batch other = take(server);
    CHECK(ids_of(other) == numbers(2, 2));
    CHECK_FALSE(*server.try_insert(sample_of(99)));
}

TEST_CASE("Server: the info of a batch is that of its lease") {
    auto server = server_of({.batch_size = 2, .num_buffers = 3});
    fill(server, 0, 5);
    Batch first = take(server);
    CHECK(first.info().store_size == 4);
    CHECK(first.info().samples_inserted_total == 5);
    CHECK(first.info().active_connections == 0);
    CHECK(first.info().queue_depth_sum == 0);
    CHECK(first.info().push_blocked_count == 0);
    CHECK(first.info().notify_count == 0);
    fill(server, 5, 1);
    const Batch second = take(server);
    CHECK(second.info().store_size == 4);
    CHECK(second.info().samples_inserted_total == 6);
    const Batch third = take(server);
    CHECK(third.info().store_size == 2);
    CHECK(first.info().store_size == 4);

    std::thread actor{[&] { (void)server.blocking_insert(sample_of(6)); }};
    while (server.metrics().producers_waiting == 0) std::this_thread::yield();
    first.release();
    actor.join();
    fill(server, 7, 1);
    const Batch fourth = take(server);
    CHECK(fourth.info().push_blocked_count == 1);
    CHECK(fourth.info().notify_count == 1);
    CHECK(fourth.info().queue_depth_sum == 0);
}

TEST_CASE("Server: a sample copies deeply and moves without moving its memory") {
    Sample original{spec_of("a:uint64[2],b:uint8[3],none:float32[0]")};
    CHECK(original.array<std::uint64_t>("a")[1] == 0);
    original.array<std::uint64_t>("a")[0] = 1;
    original.array<std::uint8_t>("b")[2] = 9;
    CHECK(original.arrays().size() == 3);
    CHECK(original.arrays()[0].size() == 16);
    CHECK(original.arrays()[2].empty());

    Sample copy{original};
    copy.array<std::uint64_t>("a")[0] = 2;
    CHECK(original.array<std::uint64_t>("a")[0] == 1);
    CHECK(copy.array<std::uint8_t>("b")[2] == 9);
    original = copy;
    CHECK(original.array<std::uint64_t>("a")[0] == 2);
    const Sample& self = original;
    original = self;
    CHECK(original.array<std::uint64_t>("a")[0] == 2);

    const auto* const data = copy.array<std::uint64_t>("a").data();
    Sample moved{std::move(copy)};
    CHECK(moved.array<std::uint64_t>("a").data() == data);
    CHECK(moved.arrays()[0].data() == reinterpret_cast<const std::byte*>(data));
    Sample other{spec_of("x:int8[]")};
    other = std::move(moved);
    CHECK(other.array<std::uint64_t>("a").data() == data);
    CHECK(other.spec().size() == 3);
}
