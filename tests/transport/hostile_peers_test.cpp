// SPDX-License-Identifier: Apache-2.0
// Peers that die, cheat, stay silent or speak something else.
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include <rondo/server.hpp>

#include <algorithm>
#include <cstdint>
#include <future>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

ServerOptions ring(std::uint64_t batch_size, std::uint64_t num_buffers, std::uint32_t io_threads) {
    return {.batch_size = batch_size, .num_buffers = num_buffers, .io_threads = io_threads};
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span{text});
}

/// A well-behaved peer's whole life.
void send_and_leave(const Listening& listening, const Payloads& payloads, std::uint32_t id,
                    std::uint32_t samples) {
    RawPeer peer = listening.greeted();
    peer.write(payloads.many(id, 0, samples));
    peer.half_close();
    if (peer.read_acks_to_end() != samples) throw std::runtime_error{"a wrong number of acks"};
}

/// The server still serves: one peer's samples fill batches of `batch_size` exactly.
void check_alive(Listening& listening, const Payloads& payloads, std::uint32_t id,
                 std::uint32_t samples) {
    auto peer =
        std::async(std::launch::async, [&] { send_and_leave(listening, payloads, id, samples); });
    Verifier verifier{payloads};
    learn(listening.server, verifier, samples);
    CHECK(verifier.complaint() == "");
    CHECK(verifier.samples_of(id) == samples);
    peer.get();
}

}  // namespace

TEST_CASE("Tcp: a peer killed within a sample delays nobody's batch") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(4'000U, 1'000'000U);
    const Payloads payloads{payload};
    const Bytes samples = payloads.many(7, 0, 2);
    Pipe to_child;
    Pipe to_parent;
    // Forked while this process has one thread.
    ChildProcess child{[&] {
        const Endpoint endpoint{"127.0.0.1", static_cast<std::uint16_t>(to_child.get())};
        RawPeer peer{endpoint};
        (void)peer.read(21);
        peer.write(std::span{samples}.first(payload + payload / 2));
        peer.wait_until_received();
        to_parent.put(1);
        peer.read_to_end();
        return 0;
    }};
    Listening listening{spec_of_bytes(payload), ring(2, 3, io_threads)};
    to_child.put(listening.endpoint.port);
    REQUIRE(to_parent.get() == 1);
    REQUIRE(
        listening.eventually([](const Metrics& now) { return now.samples_received_total == 1; }));

    // One sample of the dying peer, then 2 n + 1 of others: each batch is completed by them.
    Verifier verifier{payloads};
    auto before =
        std::async(std::launch::async, [&] { send_and_leave(listening, payloads, 1, 9); });
    learn(listening.server, verifier, 10);
    before.get();
    CHECK(verifier.samples_of(7) == 1);
    CHECK(verifier.samples_of(1) == 9);

    child.kill();
    REQUIRE(
        listening.eventually([](const Metrics& now) { return now.truncated_samples_total == 1; }));
    auto after =
        std::async(std::launch::async, [&] { send_and_leave(listening, payloads, 2, 10); });
    learn(listening.server, verifier, 20);
    after.get();
    CHECK(verifier.complaint() == "");
    CHECK(listening.eventually([](const Metrics& now) { return now.active_connections == 0; }));
}

TEST_CASE("Tcp: a peer that half-closes still gets the acks of what has to wait for room") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 10'000U);
    Listening listening{spec_of_bytes(payload), ring(2, 2, io_threads)};
    const Payloads payloads{payload};
    RawPeer peer = listening.greeted();
    peer.write(payloads.many(0, 0, 10));
    peer.half_close();
    peer.read_acks(4);
    REQUIRE(listening.eventually([](const Metrics& now) { return now.producers_waiting == 1; }));
    Verifier verifier{payloads};
    learn(listening.server, verifier, 10);
    CHECK(peer.read_acks_to_end() == 6);
    CHECK(verifier.complaint() == "");
    CHECK(listening.server.metrics().truncated_samples_total == 0);
}

TEST_CASE("Tcp: what a peer sent before it closed arrives, acks read or not") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 5'000U, 10'000U);
    const auto reads_greeting = GENERATE(true, false);
    const auto resets = GENERATE(false, true);
    Listening listening{spec_of_bytes(payload), ring(2, 2, io_threads)};
    const Payloads payloads{payload};
    constexpr std::uint32_t samples = 12;  // of which the ring holds 4
    {
        RawPeer peer{listening.endpoint};
        if (reads_greeting) (void)peer.read(listening.greeting.size());
        peer.write(payloads.many(0, 0, samples));
        // What is still on this side is lost when TCP meets data after a close; that is not ours.
        peer.wait_until_received();
        if (resets) peer.reset();
    }
    Verifier verifier{payloads};
    learn(listening.server, verifier, samples);
    CHECK(verifier.complaint() == "");
    CHECK(listening.eventually([](const Metrics& now) { return now.active_connections == 0; }));
    CHECK(listening.server.metrics().truncated_samples_total == 0);
    check_alive(listening, payloads, 1, 4);
}

TEST_CASE("Tcp: a peer may send on and on without reading an ack") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    constexpr std::uint32_t batch = 65'536;
    constexpr std::uint32_t samples = batch * (sanitized ? 48 : 96);  // acks beyond any send buffer
    constexpr std::uint64_t bound = std::uint64_t{16} << 20;
    Listening listening{spec_of_bytes(1), ring(batch, 3, io_threads)};
    RawPeer peer = listening.greeted({.receive_buffer = 4'096});
    const Bytes block(batch, std::byte{42});
    auto sender = std::async(std::launch::async, [&] {
        for (std::uint32_t sent = 0; sent < samples; sent += batch) peer.write(block);
    });
    std::uint64_t warm = 0;
    for (std::uint32_t seen = 0; seen < samples; seen += batch) {
        const auto got = listening.server.blocking_sample({.deadline = patience});
        REQUIRE(got.has_value());
        const auto bytes = got->array<std::byte>(0);
        CHECK(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{42}; }));
        if (seen == 7 * batch) warm = resident_bytes();
    }
    sender.get();
    if (!sanitized) CHECK(resident_bytes() < warm + bound);
    peer.half_close();
    CHECK(peer.read_acks_to_end() == samples);
}

TEST_CASE("Tcp: a reset within a sample truncates it and harms nobody") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 8'192U, 50'000U, 3'000'000U);
    Listening listening{spec_of_bytes(payload), ring(1, 3, io_threads)};
    const Payloads payloads{payload};
    const Bytes samples = payloads.many(0, 0, 2);
    std::mt19937 random{payload};
    for (std::uint64_t round = 1; round <= 5; ++round) {
        RawPeer peer = listening.greeted();
        peer.write(std::span{samples}.first(1 + random() % (payload - 1)));
        peer.wait_until_received();
        peer.reset();
        REQUIRE(listening.eventually(
            [&](const Metrics& now) { return now.truncated_samples_total == round; }));
    }
    check_alive(listening, payloads, 1, 3);
    CHECK(listening.server.metrics().side_buffer_bytes == 0);
}

TEST_CASE("Tcp: urgent bytes are bytes like others") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 8'192U, 8'193U, 200'000U);
    Listening listening{spec_of_bytes(payload), ring(4, 3, io_threads)};
    const Payloads payloads{payload};
    constexpr std::uint32_t samples = 24;
    auto acks = std::async(std::launch::async, [&] {
        RawPeer peer = listening.greeted();
        const Bytes stream = payloads.many(0, 0, samples);
        std::mt19937 random{payload};
        // Urgent bytes at the edges of samples and within, also several in a row.
        auto cuts = random_cuts(random, stream.size(), payload, 40);
        cuts.push_back(cuts.back() + 1);
        std::ranges::sort(cuts);
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        std::size_t sent = 0;
        for (const std::size_t cut : cuts) {
            if (cut >= stream.size()) continue;
            peer.write(std::span{stream}.subspan(sent, cut - sent));
            peer.write_urgent(stream[cut]);
            sent = cut + 1;
        }
        peer.write(std::span{stream}.subspan(sent));
        peer.half_close();
        return peer.read_acks_to_end();
    });
    Verifier verifier{payloads};
    learn(listening.server, verifier, samples);
    CHECK(verifier.complaint() == "");
    CHECK(acks.get() == samples);
}

TEST_CASE("Tcp: urgent bytes that come before the connection is accepted are not lost") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 10'000U);
    Listening listening{spec_of_bytes(payload), ring(1, 3, io_threads)};
    const Payloads payloads{payload};
    constexpr std::uint32_t peers = 30;
    std::vector<RawPeer> all;
    auto sender = std::async(std::launch::async, [&] {
        for (std::uint32_t id = 0; id < peers; ++id) {
            RawPeer& peer = all.emplace_back(listening.endpoint);
            const Bytes sample = payloads.one(id, 0);
            for (std::size_t i = 0; i < 4; ++i) peer.write_urgent(sample[i]);
            peer.write(std::span{sample}.subspan(4));
        }
    });
    Verifier verifier{payloads};
    learn(listening.server, verifier, peers);
    CHECK(verifier.complaint() == "");
    sender.get();
}

TEST_CASE("Tcp: peers that only connect, scan or babble do not disturb the others") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(1'000U, 100'000U);
    Listening listening{spec_of_bytes(payload), ring(4, 3, io_threads)};
    const Payloads payloads{payload};
    std::vector<RawPeer> silent;
    for (int i = 0; i < 20; ++i) silent.emplace_back(listening.endpoint);
    for (int i = 0; i < 100; ++i) {
        RawPeer scanner{listening.endpoint};
        if (i % 2 == 0) scanner.reset();
    }
    for (const char* babble :
         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01"}) {
        RawPeer peer{listening.endpoint};
        peer.write(bytes_of(babble));
        peer.half_close();
        CHECK(peer.read(listening.greeting.size()) == listening.greeting);
        CHECK(peer.read_acks_to_end() == 0);
    }
    check_alive(listening, payloads, 1, 40);
    CHECK(listening.server.metrics().truncated_samples_total == 3);
    CHECK(listening.server.metrics().samples_received_total == 40);
    CHECK(listening.eventually([](const Metrics& now) { return now.active_connections == 20; }));
}
