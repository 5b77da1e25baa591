// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"
#include <rondo/detail/log.hpp>
#include <rondo/log.hpp>

#include <asio/bind_executor.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using rondo::Batch;
using rondo::InsertError;
using rondo::Metrics;
using rondo::Sample;
using rondo::SampleError;
using rondo::Server;
using rondo::test::fill;
using rondo::test::HandPolled;
using rondo::test::numbers;
using rondo::test::sample_of;
using rondo::test::server_of;
using rondo::test::take;

TEST_CASE("Server: the metrics are exact at every stage of a sample's way") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    HandPolled hand;
    Metrics m = server.metrics();
    CHECK(m.samples_inserted_total == 0);
    CHECK(m.oldest_sample_age.count() == 0);

    fill(server, 0, 1);
    m = server.metrics();
    CHECK(m.samples_inserted_total == 1);
    CHECK(m.samples_ready == 0);
    CHECK(m.samples_received_total == 0);  // that counts transports only

    server.async_sample(
        asio::bind_executor(hand.executor(), [](tl::expected<Batch, SampleError>) {}));
    hand.poll();
    m = server.metrics();
    CHECK(m.consumers_waiting == 1);
    CHECK(m.consumer_waits_total == 1);
    CHECK(m.longest_producer_wait.count() == 0);
    CHECK(m.wakes_total == 0);

    fill(server, 1, 1);
    m = server.metrics();
    CHECK(m.samples_ready == 2);
    CHECK(m.consumers_waiting == 0);
    CHECK(m.wakes_total == 1);
    CHECK(m.batches_leased_total == 0);  // its handler has not run

    hand.poll();
    m = server.metrics();
    CHECK(m.samples_ready == 0);
    CHECK(m.batches_leased_total == 1);
    CHECK(m.batches_released_total == 1);
    CHECK(m.live_leases == 0);

    fill(server, 2, 4);
    m = server.metrics();
    CHECK(m.samples_ready == 4);
    CHECK(m.samples_inserted_total == 6);
    std::optional<Batch> held = take(server);
    m = server.metrics();
    CHECK(m.live_leases == 1);
    CHECK(m.samples_ready == 2);

    const Sample sample = sample_of(6);
    for (int i = 0; i < 3; ++i) {
        server.async_insert(
            sample, asio::bind_executor(hand.executor(), [](tl::expected<void, InsertError>) {}));
    }
    m = server.metrics();
    CHECK(m.producers_waiting == 3);
    CHECK(m.producer_waits_total == 3);
    CHECK(m.longest_producer_wait.count() > 0);
    CHECK(m.longest_consumer_wait.count() == 0);

    held.reset();  // two slots: two wakes
    m = server.metrics();
    CHECK(m.producers_waiting == 1);
    CHECK(m.wakes_total == 3);
    CHECK(m.samples_inserted_total == 6);
    hand.poll();
    m = server.metrics();
    CHECK(m.samples_inserted_total == 8);
    CHECK(m.producers_waiting == 1);

    server.close();
    hand.poll();
    m = server.metrics();
    CHECK(m.producers_waiting == 0);
    CHECK(m.wakes_total == 4);
    CHECK(m.samples_inserted_total == 8);
    CHECK(m.samples_dropped_at_close == 0);
    CHECK(m.active_connections == 0);
    CHECK(m.side_buffer_bytes == 0);
}

TEST_CASE("Server: what a short batch costs at close is counted") {
    auto server = server_of({.batch_size = 4, .num_buffers = 2});
    fill(server, 0, 7);
    CHECK(server.metrics().samples_dropped_at_close == 0);
    server.close();
    CHECK(server.metrics().samples_dropped_at_close == 3);
    CHECK(server.metrics().samples_ready == 4);
}

TEST_CASE("Server: the metrics can be read while everybody works") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    std::atomic<bool> stop{false};
    std::atomic<bool> consistent{true};
    std::thread reader{[&] {
        while (!stop) {
            const Metrics m = server.metrics();
            if (m.live_leases > 2 + 1 || m.batches_released_total > m.batches_leased_total ||
                m.samples_inserted_total < 2 * m.batches_leased_total) {
                consistent = false;
            }
        }
    }};
    std::thread actor{[&] {
        for (std::uint64_t id = 0; id < 2000; ++id) (void)server.blocking_insert(sample_of(id));
        server.close();
    }};
    std::uint64_t next = 0;
    bool ordered = true;
    while (const auto batch = server.blocking_sample()) {
        for (const auto id : rondo::test::ids_of(*batch)) ordered = ordered && id == next++;
    }
    actor.join();
    stop = true;
    reader.join();
    CHECK(ordered);
    CHECK(next == 2000);
    CHECK(consistent);
}

TEST_CASE("Server: the log sink gets the lines, can be replaced, and may throw") {
    std::vector<std::string> lines;
    rondo::set_log_sink([&](rondo::LogLevel level, std::string_view line) {
        lines.emplace_back((level == rondo::LogLevel::warning ? "w:" : "i:") + std::string{line});
    });
    rondo::detail::log_warning("one");
    rondo::detail::log_info("two");
    CHECK(lines == std::vector<std::string>{"w:one", "i:two"});
    rondo::set_log_sink([](rondo::LogLevel, std::string_view) { throw 1; });
    rondo::detail::log_warning("three");
    rondo::set_log_sink({});
    rondo::detail::log_warning("four");
    CHECK(lines.size() == 2);
}

TEST_CASE("Server: a batch carries its age, and the metrics that of the last") {
    auto server = server_of({.batch_size = 2, .num_buffers = 2});
    const auto before = std::chrono::steady_clock::now();
    fill(server, 0, 1);
    const auto committed = std::chrono::steady_clock::now();
    fill(server, 1, 1);
    CHECK(server.metrics().last_batch_age.count() == 0);
    const auto complete = std::chrono::steady_clock::now();
    const Batch batch = take(server);
    CHECK(batch.info().batch_age >= complete - committed);
    CHECK(batch.info().batch_age <= std::chrono::steady_clock::now() - before);
    CHECK(server.metrics().last_batch_age == batch.info().batch_age);
}

// What docs/metrics.md says of staleness: num_buffers batches bound it.
TEST_CASE(
    "Server: between a commit and its lease the learner takes num_buffers - 1 steps at most") {
    const std::uint64_t num_buffers = GENERATE(as<std::uint64_t>{}, 1, 2, 5);
    constexpr std::uint64_t steps = 40;
    auto server = server_of({.batch_size = 2, .num_buffers = num_buffers});
    std::uint64_t most = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
        // Actors that are always faster than the learner, with the policy of this moment.
        while (server.try_insert(sample_of(step)).value()) {
        }
        const Batch batch = take(server);
        for (const auto acted : rondo::test::ids_of(batch)) most = std::max(most, step - acted);
    }
    CHECK(most == num_buffers - 1);
}
