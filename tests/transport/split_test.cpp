// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include <rondo/server.hpp>

#include <array>
#include <cstdint>
#include <future>
#include <numeric>
#include <random>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

/// Sends `samples` samples cut at `cuts`, and checks that they come out whole, in order, each
/// acked.
void send_cut(const SampleSpec& spec, std::uint32_t io_threads, std::uint32_t samples,
              std::span<const std::size_t> cuts) {
    Listening listening{spec, {.batch_size = 2, .io_threads = io_threads}};
    const Payloads payloads{spec.payload_bytes()};
    auto acks = std::async(std::launch::async, [&] {
        RawPeer peer = listening.greeted();
        peer.write_in_pieces(payloads.many(0, 0, samples), cuts);
        peer.half_close();
        return peer.read_acks_to_end();
    });
    Verifier verifier{payloads};
    learn(listening.server, verifier, samples);
    CHECK(verifier.complaint() == "");
    CHECK(acks.get() == samples);
    CHECK(listening.eventually([](const Metrics& now) { return now.active_connections == 0; }));
    CHECK(listening.server.metrics().truncated_samples_total == 0);
    CHECK(listening.server.metrics().side_buffer_bytes == 0);
}

std::vector<std::size_t> every_byte(std::size_t size) {
    std::vector<std::size_t> cuts(size - 1);
    std::iota(cuts.begin(), cuts.end(), std::size_t{1});
    return cuts;
}

}  // namespace

TEST_CASE("Tcp: samples may come byte by byte") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    send_cut(spec_of("obs:float32[4],reward:float32[]"), io_threads, 60, every_byte(60 * 20));
    send_cut(spec_of_sizes(std::array<std::uint64_t, 3>{1, 20'000, 7}), io_threads, 2,
             every_byte(2 * 20'008));
}

TEST_CASE("Tcp: any split of a stream gives the same samples") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto sizes = GENERATE(values<std::vector<std::uint64_t>>(
        {{20}, {1, 0, 6, 13}, {8'000, 192}, {8'193}, {9'999, 1, 20'001}, {300'001}}));
    const SampleSpec spec = spec_of_sizes(sizes);
    const auto payload = static_cast<std::size_t>(spec.payload_bytes());
    constexpr std::uint32_t samples = 24;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        std::mt19937 random{seed};
        const std::size_t pieces = seed % 2 == 0 ? 150 : 20;
        send_cut(spec, io_threads, samples,
                 random_cuts(random, payload * samples, payload, pieces));
    }
}

TEST_CASE("Tcp: the rest of a sample may come while the server looks at its beginning") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    constexpr std::uint32_t peers = 16;
    constexpr std::uint32_t samples = sanitized ? 300 : 1'000;
    constexpr std::uint32_t payload = 20'000;
    Listening listening{spec_of_bytes(payload), {.batch_size = 8, .io_threads = io_threads}};
    const Payloads payloads{payload};
    std::vector<std::future<std::uint64_t>> actors;
    for (std::uint32_t id = 0; id < peers; ++id) {
        actors.push_back(std::async(std::launch::async, [&, id] {
            // A small buffer: the kernel hands over parts of samples all the time.
            RawPeer peer = listening.greeted({.send_buffer = 16'384});
            Bytes sample(payload);
            for (std::uint32_t seq = 0; seq < samples; ++seq) {
                payloads.fill(sample, id, seq);
                peer.write(sample);
            }
            peer.half_close();
            return peer.read_acks_to_end();
        }));
    }
    Verifier verifier{payloads};
    learn(listening.server, verifier, peers * samples);
    CHECK(verifier.complaint() == "");
    for (auto& acks : actors) CHECK(acks.get() == samples);
    CHECK(listening.server.metrics().side_buffer_bytes == 0);
}

TEST_CASE("Tcp: a peer that closes within a sample truncates that one alone") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 8'192U, 8'193U, 60'000U);
    const auto missing = GENERATE(std::size_t{1}, std::size_t{10}, std::size_t{19});
    Listening listening{spec_of_bytes(payload), {.batch_size = 3, .io_threads = io_threads}};
    const Payloads payloads{payload};
    const Bytes samples = payloads.many(0, 0, 4);
    RawPeer peer = listening.greeted();
    peer.write(std::span{samples}.first(samples.size() - missing * payload / 20));
    peer.half_close();
    CHECK(peer.read_acks_to_end() == 3);
    Verifier verifier{payloads};
    learn(listening.server, verifier, 3);
    CHECK(verifier.complaint() == "");
    CHECK(listening.server.metrics().truncated_samples_total == 1);
    CHECK(listening.server.metrics().samples_received_total == 3);
}

TEST_CASE("Tcp: whole samples and then the end are no truncation") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 20'000U);
    Listening listening{spec_of_bytes(payload), {.batch_size = 1, .io_threads = io_threads}};
    const Payloads payloads{payload};
    RawPeer silent = listening.greeted();
    silent.half_close();
    CHECK(silent.read_acks_to_end() == 0);
    RawPeer peer = listening.greeted();
    peer.write(payloads.many(0, 0, 3));
    peer.half_close();
    CHECK(peer.read_acks_to_end() == 3);
    CHECK(listening.server.metrics().truncated_samples_total == 0);
}
