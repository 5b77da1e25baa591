// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"

#include <asio/bind_executor.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using rondo::Ingress;
using rondo::InsertError;
using rondo::ListenError;
using rondo::Sample;
using rondo::SampleError;
using rondo::Server;
using rondo::Transport;
using rondo::test::bytes_of;
using rondo::test::eventually;
using rondo::test::fill;
using rondo::test::HandPolled;
using rondo::test::ids_of;
using rondo::test::numbers;
using rondo::test::sample_of;
using rondo::test::server_of;
using rondo::test::take;

namespace {

/// A transport that does nothing but remember what was asked of it.
class Recorder final : public Transport {
public:
    struct Seen {
        std::optional<Ingress> ingress;
        int starts = 0;
        int stops = 0;
        bool alive = true;
        bool input_was_closed = false;
        bool fail = false;
    };

    explicit Recorder(Seen& seen) noexcept : seen_{seen} {}
    ~Recorder() override {
        seen_.alive = false;
        seen_.ingress.reset();
    }

    tl::expected<void, ListenError> start(Ingress ingress) override {
        ++seen_.starts;
        if (seen_.fail) return tl::unexpected{ListenError{ListenError::Code::in_use, "taken"}};
        seen_.ingress = std::move(ingress);
        return {};
    }

    void stop() noexcept override {
        ++seen_.stops;
        const auto inserted = seen_.ingress->try_insert(sample_of(0).arrays());
        seen_.input_was_closed =
            !inserted.has_value() && inserted.error().code == InsertError::Code::closed;
    }

private:
    Seen& seen_;
};

}  // namespace

TEST_CASE("Server: close is idempotent, also from several threads at once") {
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    fill(server, 0, 1);
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { server.close(); });
    for (auto& thread : threads) thread.join();
    server.close();
    CHECK(seen.stops == 1);
    CHECK(seen.input_was_closed);
    CHECK_FALSE(seen.alive);
    CHECK(ids_of(take(server)) == numbers(0, 1));
    CHECK(server.try_sample().error().code == SampleError::Code::closed);
}

TEST_CASE("Server: a closed server takes no transports, and one that fails is not kept") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    Recorder::Seen failing;
    failing.fail = true;
    const auto failed = server.add(std::make_unique<Recorder>(failing));
    REQUIRE_FALSE(failed.has_value());
    CHECK(failed.error().code == ListenError::Code::in_use);
    CHECK(failing.starts == 1);
    CHECK(failing.stops == 0);
    CHECK_FALSE(failing.alive);
    server.close();
    Recorder::Seen late;
    const auto closed = server.add(std::make_unique<Recorder>(late));
    REQUIRE_FALSE(closed.has_value());
    CHECK(closed.error().code == ListenError::Code::closed);
    CHECK(late.starts == 0);
}

TEST_CASE("Server: destruction and move assignment close; a move does not") {
    Recorder::Seen first;
    Recorder::Seen second;
    std::optional<Server> server{server_of({.batch_size = 1, .num_buffers = 1})};
    REQUIRE(server->add(std::make_unique<Recorder>(first)).has_value());
    Server moved{*std::move(server)};
    server.reset();
    CHECK(first.stops == 0);
    CHECK(*moved.try_insert(sample_of(3)));

    Server other = server_of({.batch_size = 1, .num_buffers = 1});
    REQUIRE(other.add(std::make_unique<Recorder>(second)).has_value());
    moved = std::move(other);
    CHECK(first.stops == 1);
    CHECK_FALSE(first.alive);
    CHECK(second.stops == 0);
    CHECK(*moved.try_insert(sample_of(4)));
    CHECK(ids_of(take(moved)) == numbers(4, 1));
    Server& self = moved;
    moved = std::move(self);
    CHECK(second.stops == 0);
    { const Server last{std::move(moved)}; }
    CHECK(second.stops == 1);
    CHECK_FALSE(second.alive);
}

TEST_CASE("Server: a transport's ingress checks what it is given, and counts what it takes") {
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    Ingress& ingress = *seen.ingress;
    CHECK(ingress.spec() == server.spec());
    const auto ids = numbers(0, 6);
    const std::vector stacked{bytes_of(ids)};
    CHECK(ingress.try_insert(stacked).error().code == InsertError::Code::mismatch);
    CHECK(ingress.try_insert({}).error().code == InsertError::Code::mismatch);
    CHECK(ingress.try_insert_payloads(bytes_of(ids).first(7)).error().code ==
          InsertError::Code::mismatch);
    CHECK(*ingress.try_insert_payloads({}) == 0);
    CHECK(*ingress.try_insert_payloads(bytes_of(ids).first(8)) == 1);
    CHECK(*ingress.try_insert(sample_of(1).arrays()) == 1);
    CHECK(*ingress.try_insert_payloads(bytes_of(ids).subspan(16)) == 2);
    CHECK(*ingress.try_insert_payloads(bytes_of(ids).subspan(32)) == 0);
    CHECK(server.metrics().samples_received_total == 4);
    CHECK(server.metrics().samples_inserted_total == 4);
    CHECK(ids_of(take(server)) == numbers(0, 2));
    CHECK(*ingress.try_insert(stacked, 6) == 2);
    CHECK(ids_of(take(server)) == numbers(2, 2));
    CHECK(ids_of(take(server)) == numbers(0, 2));
    CHECK(server.metrics().samples_received_total == 6);

    Recorder::Seen other;
    auto nothing = server_of({.batch_size = 2, .num_buffers = 1}, "none:float32[0]");
    REQUIRE(nothing.add(std::make_unique<Recorder>(other)).has_value());
    CHECK(other.ingress->try_insert_payloads({}).error().code == InsertError::Code::mismatch);
    CHECK(*other.ingress->try_insert(std::vector<rondo::ArrayBytes>(1), 3) == 2);
}

TEST_CASE("Server: a wait for room ends with room, with the deadline, and at close") {
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    HandPolled hand;
    std::vector<bool> got;
    const auto handler = [&] {
        return asio::bind_executor(hand.executor(), [&](bool room) { got.push_back(room); });
    };
    seen.ingress->async_wait_for_room({}, handler());
    CHECK(got.empty());
    hand.poll();
    CHECK(got == std::vector{true});
    fill(server, 0, 1);
    seen.ingress->async_wait_for_room(std::chrono::milliseconds{1}, handler());
    hand.run();
    CHECK(got == std::vector{true, false});
    seen.ingress->async_wait_for_room({}, handler());
    hand.poll();
    CHECK(got.size() == 2);
    (void)take(server);
    hand.poll();
    CHECK(got == std::vector{true, false, true});
    fill(server, 1, 1);
    seen.ingress->async_wait_for_room({}, handler());
    hand.poll();
    server.close();
    hand.poll();
    CHECK(got == std::vector{true, false, true, false});
}

TEST_CASE("Server: room that a transport waited for, and does not use, goes to the next") {
    // A connection with nothing to insert must not keep the only permit: nobody else would be
    // woken, the ring would stay empty, and no release would ever wake anybody again.
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    HandPolled hand;
    fill(server, 0, 1);
    int idle = 0;
    for (int i = 0; i < 3; ++i) {
        seen.ingress->async_wait_for_room(
            {}, asio::bind_executor(hand.executor(), [&](bool) { ++idle; }));
    }
    bool inserted = false;
    const Sample sample = sample_of(1);
    server.async_insert(
        sample, asio::bind_executor(hand.executor(), [&](const tl::expected<void, InsertError>& i) {
            inserted = i.has_value();
        }));
    hand.poll();
    REQUIRE(server.metrics().producers_waiting == 4);
    (void)take(server);
    hand.poll();
    CHECK(idle == 3);
    CHECK(inserted);
    CHECK(server.metrics().wakes_total == 4);
}

TEST_CASE("Server: room that a transport uses is not given twice") {
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    HandPolled hand;
    fill(server, 0, 1);
    int went_on = 0;
    for (int i = 0; i < 3; ++i) {
        seen.ingress->async_wait_for_room({}, asio::bind_executor(hand.executor(), [&](bool) {
                                              ++went_on;
                                              (void)seen.ingress->try_insert(sample_of(1).arrays());
                                          }));
    }
    hand.poll();
    (void)take(server);
    hand.poll();
    CHECK(went_on == 1);
    CHECK(server.metrics().producers_waiting == 2);
    CHECK(server.metrics().wakes_total == 1);
}

TEST_CASE("Server: threads that wait for room, and do not use it, let each other know") {
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    CHECK(seen.ingress->blocking_wait_for_room());
    fill(server, 0, 1);
    CHECK_FALSE(seen.ingress->blocking_wait_for_room(std::chrono::steady_clock::now()));
    std::atomic<int> idle{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] { idle += seen.ingress->blocking_wait_for_room() ? 1 : 0; });
    }
    REQUIRE(eventually([&] { return server.metrics().producers_waiting == 3; }));
    (void)take(server);  // one slot, one wake
    for (auto& thread : threads) thread.join();
    CHECK(idle == 3);
    CHECK(server.metrics().wakes_total == 3);
}

TEST_CASE("Server: closing ends a thread's wait for room") {
    Recorder::Seen seen;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    REQUIRE(server.add(std::make_unique<Recorder>(seen)).has_value());
    fill(server, 0, 1);
    std::atomic<bool> room{true};
    Ingress ingress = *seen.ingress;  // the transport's goes with it
    std::thread waits{[&] { room = ingress.blocking_wait_for_room(); }};
    REQUIRE(eventually([&] { return server.metrics().producers_waiting == 1; }));
    server.close();
    waits.join();
    CHECK_FALSE(room);
    CHECK_FALSE(ingress.blocking_wait_for_room());
}
