// SPDX-License-Identifier: Apache-2.0
// Stages each situation of the table in docs/metrics.md, and reads there what the table says.
#include "metrics/staged_time.hpp"
#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/raw_peer.hpp"
#include "support/stores.hpp"
#include <rondo/blocking_tcp_client.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr std::uint64_t batch_size = 4;
constexpr std::uint64_t num_buffers = 3;
constexpr std::uint64_t ring = batch_size * num_buffers;

Server make_server() {
    return server_of({.batch_size = batch_size, .num_buffers = num_buffers});
}

/// Runs what ends when the server closes; closes it, also when a test fails.
class UntilClosed {
public:
    template <typename Body>
    UntilClosed(Server& server, Body body) : server_{server}, thread_{std::move(body)} {}
    UntilClosed(const UntilClosed&) = delete;
    UntilClosed& operator=(const UntilClosed&) = delete;
    ~UntilClosed() { close(); }

    void close() {
        server_.close();
        if (thread_.joinable()) thread_.join();
    }

private:
    Server& server_;
    std::thread thread_;
};

/// An actor that inserts as fast as the ring takes it.
UntilClosed fast_actor(Server& server) {
    return UntilClosed{server, [&server] {
                           std::uint64_t id = 0;
                           while (server.blocking_insert(sample_of(id++))) {
                           }
                       }};
}

/// Waits for the metrics to say so.
template <typename Condition>
bool say(const Server& server, const Condition& condition) {
    return eventually([&] { return condition(server.metrics()); });
}

RawPeer connected_peer(const Endpoint& endpoint) {
    RawPeer peer{endpoint};
    (void)peer.read(9 + 8);
    return peer;
}

}  // namespace

TEST_CASE("Signals: a starved learner waits for every batch, and no producer waits") {
    auto server = make_server();
    std::atomic<bool> one_by_one{true};
    UntilClosed learner{server, [&] {
                            while (const auto batch = server.blocking_sample()) {
                                one_by_one = one_by_one && batch->info().store_size == batch_size &&
                                             batch->info().queue_depth_sum == 0 &&
                                             batch->info().queue_depth_max == 0 &&
                                             batch->info().push_blocked_count == 0;
                            }
                        }};
    for (std::uint64_t batch = 0; batch < 5; ++batch) {
        REQUIRE(say(server, [](const Metrics& m) { return m.consumers_waiting == 1; }));
        const Metrics starved = server.metrics();
        CHECK(starved.consumer_waits_total == batch + 1);
        CHECK(starved.samples_ready == 0);
        CHECK(starved.longest_consumer_wait.count() > 0);
        CHECK(starved.producers_waiting == 0);
        CHECK(starved.producer_waits_total == 0);
        fill(server, 0, batch_size);
        REQUIRE(say(server, [&](const Metrics& m) { return m.batches_released_total > batch; }));
    }
    learner.close();
    CHECK(one_by_one);
}

TEST_CASE("Signals: with a slow learner producers wait for every batch, and it never does") {
    auto server = make_server();
    const UntilClosed actor = fast_actor(server);
    for (std::uint64_t step = 0; step < 5; ++step) {
        // Slower than the actor: it comes for a batch when the ring has long been full.
        REQUIRE(say(server, [](const Metrics& m) { return m.producers_waiting == 1; }));
        const Metrics before = server.metrics();
        CHECK(before.samples_ready == ring);
        CHECK(before.samples_inserted_total == ring + step * batch_size);
        CHECK(before.producer_waits_total == step + 1);
        CHECK(before.consumer_waits_total == 0);

        const SteadyTime in_the_ring = now();
        const SteadyTime trained = let_time_pass();
        const Batch batch = take(server);
        CHECK(batch.info().store_size == ring);
        CHECK(batch.info().queue_depth_sum == 1);
        CHECK(batch.info().queue_depth_max == 1);
        CHECK(batch.info().push_blocked_count == step + 1);
        CHECK(batch.info().batch_age >= trained - in_the_ring);  // what it learns from is stale
    }
}

TEST_CASE("Signals: in a full ring that nobody frees nothing moves but the longest wait") {
    auto server = make_server();
    const UntilClosed actor = fast_actor(server);
    const bool holds_all = GENERATE(true, false);
    std::vector<Batch> held;
    if (holds_all) {
        for (std::uint64_t i = 0; i < num_buffers; ++i) {
            held.push_back(server.blocking_sample().value());
        }
    }
    REQUIRE(say(server, [](const Metrics& m) { return m.producers_waiting == 1; }));
    const Metrics before = server.metrics();
    // Who has the ring: the learner that gives nothing back, or the one that does not come.
    CHECK(before.live_leases == (holds_all ? num_buffers : 0));
    CHECK(before.samples_ready == (holds_all ? 0 : ring));
    (void)let_time_pass();
    const Metrics after = server.metrics();
    CHECK(after.samples_inserted_total == before.samples_inserted_total);
    CHECK(after.batches_leased_total == before.batches_leased_total);
    CHECK(after.longest_producer_wait > before.longest_producer_wait);
    CHECK(server.blocking_sample({.deadline = now(), .when_next_leased = WhenNextLeased::fail})
              .has_value() == !holds_all);
}

TEST_CASE("Signals: actors that leave between samples are missing from the connections") {
    auto server = make_server();
    const Endpoint endpoint = server.listen().value();
    std::optional<RawPeer> stays{connected_peer(endpoint)};
    std::optional<RawPeer> leaves{connected_peer(endpoint)};
    REQUIRE(say(server, [](const Metrics& m) { return m.active_connections == 2; }));
    leaves.reset();
    REQUIRE(say(server, [](const Metrics& m) { return m.active_connections == 1; }));
    CHECK(server.metrics().connections_accepted_total == 2);
    CHECK(server.metrics().truncated_samples_total == 0);

    // One that comes back again and again: the connections stay few, the accepted grow.
    for (int i = 0; i < 3; ++i) (void)connected_peer(endpoint);
    REQUIRE(say(server, [](const Metrics& m) {
        return m.connections_accepted_total == 5 && m.active_connections == 1;
    }));
}

TEST_CASE("Signals: an actor that is killed within a sample leaves a truncated one behind") {
    auto server = make_server();
    const Endpoint endpoint = server.listen().value();
    ChildProcess actor{[&endpoint] {
        RawPeer peer = connected_peer(endpoint);
        const auto ids = numbers(0, 4);
        peer.write(bytes_of(ids).first(3 * 8 + 5));
        for (;;) ::pause();
        return 0;
    }};
    REQUIRE(say(server, [](const Metrics& m) { return m.bytes_received_total == 3 * 8 + 5; }));
    CHECK(server.metrics().truncated_samples_total == 0);
    actor.kill();
    REQUIRE(say(server, [](const Metrics& m) { return m.active_connections == 0; }));
    const Metrics m = server.metrics();
    CHECK(m.connections_accepted_total == 1);
    CHECK(m.truncated_samples_total == 1);
    CHECK(m.samples_received_total == 3);
    CHECK(m.samples_inserted_total == 3);
}

TEST_CASE("Signals: idle actors are connected, and nothing comes") {
    auto server = make_server();
    const Endpoint endpoint = server.listen().value();
    const RawPeer idle = connected_peer(endpoint);
    REQUIRE(say(server, [](const Metrics& m) { return m.active_connections == 1; }));
    const Metrics m = server.metrics();
    CHECK(m.samples_received_total == 0);
    CHECK(m.bytes_received_total == 0);
    CHECK(m.producers_waiting == 0);
}

// docs/metrics.md, "How old a sample can be". With one actor, since others may overtake it.
TEST_CASE("Signals: an actor that waits makes samples older by its window, and no more") {
    constexpr std::uint32_t window = 8;
    constexpr std::uint64_t steps = 200;
    auto server = make_server();
    const Endpoint endpoint = server.listen().value();
    std::atomic<std::uint64_t> step{0};
    const UntilClosed actor{server, [&] {
                                auto client = BlockingTcpClient::connect(
                                    endpoint.address, endpoint.port, server.spec(),
                                    {.max_in_flight = window});
                                // Acts with the policy of this moment, then waits for as long as it
                                // takes.
                                while (client && client->send(sample_of(step))) {
                                }
                            }};
    std::uint64_t oldest = 0;
    while (step < steps) {
        Batch batch = server.blocking_sample().value();
        for (const auto acted : ids_of(batch)) oldest = std::max(oldest, step - acted);
        ++step;
        batch.release();
    }
    CHECK(oldest <= num_buffers + window / batch_size);
}
