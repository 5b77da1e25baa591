// SPDX-License-Identifier: Apache-2.0
// What happens when the ring is full.
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include <rondo/server.hpp>

#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

bool acks_arrive(RawPeer& peer, std::uint64_t count) {
    std::uint64_t seen = 0;
    return eventually([&] {
               seen += peer.acks_here();
               return seen >= count;
           }) &&
           seen == count;
}

}  // namespace

TEST_CASE("Tcp: acks count the samples in the ring, and never more") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 8'193U);
    Listening listening{spec_of_bytes(payload),
                        {.batch_size = 4, .num_buffers = 2, .io_threads = io_threads}};
    const Payloads payloads{payload};
    RawPeer peer = listening.greeted();
    peer.write(payloads.many(0, 0, 40));
    Verifier verifier{payloads};
    REQUIRE(acks_arrive(peer, 8));
    for (int batch = 2; batch < 10; ++batch) {
        // The ring is full, and whoever has more to bring waits.
        REQUIRE(
            listening.eventually([](const Metrics& now) { return now.producers_waiting == 1; }));
        CHECK(peer.acks_here() == 0);
        CHECK(listening.server.metrics().samples_received_total ==
              static_cast<std::uint64_t>(batch) * 4);
        auto leased = listening.server.blocking_sample({.deadline = patience});
        REQUIRE(leased.has_value());
        verifier.check(*leased);
        CHECK(peer.acks_here() == 0);  // a leased batch is no room
        leased->release();
        REQUIRE(acks_arrive(peer, 4));
    }
    learn(listening.server, verifier, 40);
    CHECK(verifier.complaint() == "");
    CHECK(peer.acks_here() == 0);
}

TEST_CASE("Tcp: connections without a whole sample do not use up the room of others") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 8'192U, 8'193U);
    Listening listening{spec_of_bytes(payload),
                        {.batch_size = 1, .num_buffers = 1, .io_threads = io_threads}};
    const Payloads payloads{payload};
    RawPeer first = listening.greeted();
    first.write(payloads.one(0, 0));
    first.read_acks(1);  // the ring is full from here on
    std::vector<RawPeer> idle;
    for (std::uint32_t id = 1; id <= 8; ++id) {
        idle.push_back(listening.greeted());
        const Bytes sample = payloads.one(id, 0);
        idle.back().write(std::span{sample}.first(id % 2 == 0 ? 0 : payload / 2));
        idle.back().wait_until_received();
    }
    // Each connection has found the ring full once it was accepted and looked.
    REQUIRE(listening.eventually([](const Metrics& now) { return now.active_connections == 9; }));
    std::vector<RawPeer> busy;
    for (std::uint32_t id = 9; id <= 11; ++id) {
        busy.push_back(listening.greeted());
        busy.back().write(payloads.one(id, 0));
        busy.back().wait_until_received();
    }
    REQUIRE(listening.eventually([](const Metrics& now) { return now.producers_waiting == 3; }));
    Verifier verifier{payloads};
    learn(listening.server, verifier, 4);
    CHECK(verifier.complaint() == "");
    for (RawPeer& peer : busy) peer.read_acks(1);
}

TEST_CASE("Tcp: samples that lose a race for room are in the ring before the peer sends more") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 9'000U);
    constexpr std::uint32_t peers = 4;
    constexpr std::uint32_t rounds = sanitized ? 150 : 500;
    constexpr std::uint32_t burst = 5;
    Listening listening{spec_of_bytes(payload),
                        {.batch_size = 1, .num_buffers = 3, .io_threads = io_threads}};
    const Payloads payloads{payload};
    std::vector<std::future<void>> actors;
    for (std::uint32_t id = 0; id < peers; ++id) {
        actors.push_back(std::async(std::launch::async, [&, id] {
            RawPeer peer = listening.greeted();
            for (std::uint32_t round = 0; round < rounds; ++round) {
                peer.write(payloads.many(id, round * burst, burst));
                peer.read_acks(burst);
            }
        }));
    }
    // Actors in this process take room between a connection's look at it and its reservation.
    for (std::uint32_t id = peers; id < peers + 2; ++id) {
        actors.push_back(std::async(std::launch::async, [&, id] {
            for (std::uint32_t seq = 0; seq < rounds * burst; ++seq) {
                const Bytes sample = payloads.one(id, seq);
                const ArrayBytes array{sample};
                const auto inserted =
                    listening.server.blocking_insert_many({&array, 1}, 1, patience);
                if (!inserted) throw std::runtime_error{inserted.error().message()};
            }
        }));
    }
    Verifier verifier{payloads};
    learn(listening.server, verifier, std::uint64_t{peers + 2} * rounds * burst);
    CHECK(verifier.complaint() == "");
    for (auto& actor : actors) actor.get();
}

TEST_CASE("Tcp: a ring of one buffer and batches of one sample starve nobody") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 20'000U);
    const auto batch_size = GENERATE(1U, 2U);
    constexpr std::uint32_t peers = 8;
    constexpr std::uint32_t samples = 100;
    Listening listening{spec_of_bytes(payload),
                        {.batch_size = batch_size, .num_buffers = 1, .io_threads = io_threads}};
    const Payloads payloads{payload};
    std::vector<std::future<void>> actors;
    for (std::uint32_t id = 0; id < peers; ++id) {
        actors.push_back(std::async(std::launch::async, [&, id] {
            RawPeer peer = listening.greeted();
            for (std::uint32_t seq = 0; seq < samples; ++seq) {
                peer.write(payloads.one(id, seq));
                if (batch_size == 1) peer.read_acks(1);  // in lockstep
            }
            peer.half_close();
            if (batch_size > 1 && peer.read_acks_to_end() != samples) {
                throw std::runtime_error{"a wrong number of acks"};
            }
        }));
    }
    Verifier verifier{payloads};
    learn(listening.server, verifier, std::uint64_t{peers} * samples);
    CHECK(verifier.complaint() == "");
    for (auto& actor : actors) actor.get();
}

TEST_CASE("Tcp: a learner that stops for a while costs no sample and no memory") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(1'000U, 20'000U);
    constexpr std::uint32_t peers = 64;
    constexpr std::uint64_t total_bytes = std::uint64_t{128} << 20;  // of which the ring holds 2 %
    constexpr std::uint64_t bound = std::uint64_t{24} << 20;
    const auto samples = static_cast<std::uint32_t>(total_bytes / payload / peers / 32 * 32);
    Listening listening{
        spec_of_bytes(payload),
        {.batch_size = 32, .num_buffers = 3, .prefault = true, .io_threads = io_threads}};
    const Payloads payloads{payload};
    std::atomic<std::uint32_t> greeted{0};
    std::vector<std::future<std::uint64_t>> actors;
    for (std::uint32_t id = 0; id < peers; ++id) {
        actors.push_back(std::async(std::launch::async, [&, id] {
            // Small socket buffers, so that the data cannot hide in the kernel.
            RawPeer peer = listening.greeted({.send_buffer = 16'384});
            Bytes sample(payload);
            ++greeted;
            for (std::uint32_t seq = 0; seq < samples; ++seq) {
                payloads.fill(sample, id, seq);
                peer.write(sample);
            }
            peer.half_close();
            return peer.read_acks_to_end();
        }));
    }
    REQUIRE(eventually([&] { return greeted == peers; }));
    const std::uint64_t before = resident_bytes();
    Verifier verifier{payloads};
    // Stops thrice: at the beginning, and twice on the way.
    for (std::uint64_t part = 1; part <= 3; ++part) {
        REQUIRE(listening.eventually([&](const Metrics& now) {
            return now.samples_received_total == verifier.samples() + 96 &&
                   now.producers_waiting == now.active_connections;
        }));
        if (!sanitized) CHECK(resident_bytes() < before + bound);
        learn(listening.server, verifier, part * peers * samples / 8);
    }
    learn(listening.server, verifier, std::uint64_t{peers} * samples);
    CHECK(verifier.complaint() == "");
    for (auto& acks : actors) CHECK(acks.get() == samples);
}
