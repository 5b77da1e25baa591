// SPDX-License-Identifier: Apache-2.0
// What a server records in the build with detailed metrics, and that it is all zero in the others.
#include "metrics/staged_time.hpp"
#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/handlers.hpp"
#include "support/raw_peer.hpp"
#include "support/stores.hpp"

#include <asio/bind_executor.hpp>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

/// `count` in a build that counts it.
std::uint64_t detailed(std::uint64_t count) {
    return has_detailed_metrics() ? count : 0;
}

/// A server with a listener, and a peer that has read its greeting.
struct Connected {
    Server server;
    Endpoint endpoint = server.listen().value();
    RawPeer peer{endpoint};

    explicit Connected(std::string_view spec) : server{server_of({.batch_size = 4}, spec)} {
        (void)peer.read(9 + 8 + 4 * server.spec().arrays()[0].shape.size());
    }

    [[nodiscard]] bool eventually_inserted(std::uint64_t samples) const {
        return eventually([&] { return server.metrics().samples_received_total == samples; });
    }
};

}  // namespace

TEST_CASE("Detailed metrics: in-process inserts count as reservations, copies and dwells") {
    auto server = server_of({.batch_size = 4});
    fill(server, 0, 3);  // 3 reservations
    const auto stacked = numbers(3, 5);
    const ArrayBytes arrays[] = {bytes_of(stacked)};
    REQUIRE(server.try_insert_many(arrays, 5) == 5u);  // 2, to the end of each batch

    const Metrics m = server.metrics();
    CHECK(m.samples_inserted_total == 8);
    CHECK(m.detailed.cas_success_total == detailed(5));
    CHECK(m.detailed.cas_failure_total == 0);
    CHECK(m.detailed.reservation_retries_total == 0);
    CHECK(m.detailed.histograms.memcpy.count == detailed(5));
    CHECK(m.detailed.histograms.queue_dwell.count == detailed(8));
    CHECK(m.detailed.histograms.drain_round.count == 0);  // that is what transports do

    const SampleInfo info = take(server).info();
    CHECK(info.samples_inserted_total == 8);
    CHECK(info.cas_success_total == detailed(5));
    CHECK(info.memcpy.count == detailed(5));
    CHECK(info.queue_dwell.count == detailed(8));
    CHECK(info.drain_round.count == 0);
}

TEST_CASE("Detailed metrics: the dwell of an insert that waits includes the wait") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    HandPolled hand;
    const Sample waiting = sample_of(1);
    bool inserted = false;
    server.async_insert(waiting, asio::bind_executor(hand.executor(), [&](auto result) {
                            inserted = result.has_value();
                        }));
    const SteadyTime waits = now();
    const SteadyTime end = let_time_pass();
    take(server).release();
    hand.poll();
    REQUIRE(inserted);
    const HistSnapshot dwell = server.metrics().detailed.histograms.queue_dwell;
    CHECK(dwell.count == detailed(2));
    CHECK(at_least(dwell.max_ns, detailed(ns_since(waits, end))));
}

TEST_CASE("Detailed metrics: a sample that arrives in two parts dwells from the first to the end") {
    Connected own{"id:uint64[]"};
    const auto id = numbers(7, 1);
    own.peer.write(bytes_of(id).first(3));
    REQUIRE(eventually([&] { return own.server.metrics().bytes_received_total == 3; }));
    const SteadyTime seen = now();
    const SteadyTime end = let_time_pass();
    own.peer.write(bytes_of(id).subspan(3));
    REQUIRE(own.eventually_inserted(1));
    REQUIRE(own.peer.read(1).size() == 1);  // the ack comes at the end of its round
    const Histograms read = own.server.metrics().detailed.histograms;
    CHECK(read.queue_dwell.count == detailed(1));
    CHECK(at_least(read.queue_dwell.max_ns, detailed(ns_since(seen, end))));
    CHECK(read.memcpy.count == detailed(1));
}

TEST_CASE("Detailed metrics: only rounds that took samples in are rounds") {
    const bool large = GENERATE(false, true);
    Connected own{large ? "bytes:uint8[100000]" : "bytes:uint8[100]"};
    const Bytes sample(own.server.spec().payload_bytes());
    own.peer.write(std::span{sample}.first(50));  // most likely a round of its own
    own.peer.wait_until_received();
    own.peer.write(std::span{sample}.subspan(50));
    REQUIRE(own.eventually_inserted(1));
    own.server.close();  // joins the thread, so its round has ended
    const Metrics m = own.server.metrics();
    CHECK(m.detailed.histograms.drain_round.count == detailed(1));
    CHECK(m.detailed.histograms.queue_dwell.count == detailed(1));
    CHECK(m.detailed.histograms.memcpy.count == detailed(1));
    CHECK(m.detailed.cas_success_total == detailed(1));
}

TEST_CASE("Detailed metrics: a reset returns the histograms and leaves the counters") {
    auto server = server_of({.batch_size = 2});
    fill(server, 0, 2);
    const Histograms ended = server.reset_histograms();
    CHECK(ended.memcpy.count == detailed(2));
    CHECK(ended.queue_dwell.count == detailed(2));
    fill(server, 2, 2);
    CHECK(take(server).info().memcpy.count == detailed(2));
    const Metrics m = server.metrics();
    CHECK(m.detailed.histograms.memcpy.count == detailed(2));
    CHECK(m.detailed.cas_success_total == detailed(4));
    CHECK(m.samples_inserted_total == 4);
}

TEST_CASE("Detailed metrics: producers that get into each other's way are counted") {
    if (!has_detailed_metrics()) RONDO_SKIP("this build counts no CAS failures");
    auto server = server_of({.batch_size = 64, .num_buffers = 2});
    std::atomic<bool> stop{false};
    std::vector<std::thread> actors;
    for (int i = 0; i < 2; ++i) {
        actors.emplace_back([&] {
            const Sample sample = sample_of(1);
            while (!stop) (void)server.try_insert(sample);
        });
    }
    const bool failed = eventually([&] {
        (void)server.try_sample();  // leases, and releases at once
        return server.metrics().detailed.cas_failure_total > 0;
    });
    stop = true;
    for (auto& actor : actors) actor.join();
    CHECK(failed);
    const DetailedMetrics m = server.metrics().detailed;
    CHECK(m.reservation_retries_total >= m.cas_failure_total);
    CHECK(m.cas_success_total == m.histograms.memcpy.count);
    CHECK(m.cas_success_total == m.histograms.queue_dwell.count);
    CHECK(m.cas_success_total == server.metrics().samples_inserted_total);
}

TEST_CASE("Detailed metrics: histograms of all ingress threads lose nothing in resets") {
    constexpr std::uint64_t per_peer = 2'000;
    auto server = server_of({.batch_size = 16, .io_threads = 2});
    const Endpoint endpoint = server.listen().value();
    std::vector<std::thread> peers;
    for (int i = 0; i < 4; ++i) {
        peers.emplace_back([&endpoint] {
            RawPeer peer{endpoint};
            (void)peer.read(9 + 8);
            const auto ids = numbers(0, per_peer);
            peer.write(bytes_of(ids));
            peer.half_close();
            (void)peer.read_acks_to_end();
        });
    }
    std::uint64_t dwells = 0;
    std::uint64_t learned = 0;
    while (learned < 4 * per_peer) {
        const auto batch = server.blocking_sample();
        REQUIRE(batch.has_value());
        learned += batch->size();
        dwells += server.reset_histograms().queue_dwell.count;
    }
    for (auto& peer : peers) peer.join();
    server.close();
    dwells += server.reset_histograms().queue_dwell.count;
    CHECK(dwells == detailed(4 * per_peer));
}
