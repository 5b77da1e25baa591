// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include "transport/side_buffers.hpp"
#include <rondo/server.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <future>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

/// A payload that the kernel cannot hold in full, so that it always needs a side buffer; nothing
/// if that would be too much for a test. The low-water mark is clamped to half of the largest
/// receive buffer.
std::optional<std::uint64_t> beyond_the_mark() {
    std::ifstream file{"/proc/sys/net/ipv4/tcp_rmem"};
    std::uint64_t largest = 6U << 20U;
    file >> largest >> largest >> largest;
    constexpr std::uint64_t most = std::uint64_t{64} << 20;
    if (largest > most) return std::nullopt;
    return largest / 2 + (std::uint64_t{2} << 20) + 13;
}

constexpr const char* too_large =
    "net.ipv4.tcp_rmem lets the kernel hold more than 32 MiB of a sample";

struct SideServer : Listening {
    SideServer(std::uint64_t payload, std::uint64_t limit, std::uint32_t io_threads)
        : Listening{spec_of_sizes(std::array{payload - 5'000'000, std::uint64_t{5'000'000}}),
                    {.batch_size = 1, .num_buffers = 2, .io_threads = io_threads},
                    {.max_side_buffer_bytes = limit, .linger = std::chrono::milliseconds{200}}} {}
};

}  // namespace

TEST_CASE("Tcp: samples beyond the kernel's buffers take turns at one side buffer") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = beyond_the_mark();
    if (!payload) RONDO_SKIP(too_large);
    constexpr std::uint32_t peers = 3;
    constexpr std::uint32_t samples = 2;
    SideServer listening{*payload, 1, io_threads};
    const Payloads payloads{*payload};
    std::vector<std::future<std::uint64_t>> actors;
    for (std::uint32_t id = 0; id < peers; ++id) {
        actors.push_back(std::async(std::launch::async, [&, id] {
            RawPeer peer = listening.greeted();
            std::mt19937 random{id};
            Bytes sample(payloads.size());
            for (std::uint32_t seq = 0; seq < samples; ++seq) {
                payloads.fill(sample, id, seq);
                peer.write_in_pieces(sample, random_cuts(random, sample.size(), sample.size(), 12));
            }
            peer.half_close();
            return peer.read_acks_to_end();
        }));
    }
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> most{0};
    std::thread watcher{[&] {
        while (!done) {
            most = std::max<std::uint64_t>(most, listening.server.metrics().side_buffer_bytes);
            std::this_thread::yield();
        }
    }};
    Verifier verifier{payloads};
    try {
        learn(listening.server, verifier, peers * samples);
    } catch (const std::exception& error) {
        UNSCOPED_INFO(error.what());
    }
    done = true;
    watcher.join();
    REQUIRE(verifier.samples() == peers * samples);
    CHECK(verifier.complaint() == "");
    for (auto& acks : actors) CHECK(acks.get() == samples);
    CHECK(most == *payload);  // one buffer, although a sample is beyond the limit, and never two
    CHECK(listening.server.metrics().side_buffer_bytes == 0);
}

TEST_CASE("Tcp: a peer killed while it holds a side buffer gives it back") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto resets = GENERATE(true, false);
    const auto payload = beyond_the_mark();
    if (!payload) RONDO_SKIP(too_large);
    SideServer listening{*payload, 1, io_threads};
    const Payloads payloads{*payload};
    RawPeer holder = listening.greeted();
    const Bytes sample = payloads.one(0, 0);
    holder.write(std::span{sample}.first(sample.size() - 1));
    REQUIRE(listening.eventually(
        [&](const Metrics& now) { return now.side_buffer_bytes == *payload; }));
    auto waiting = std::async(std::launch::async, [&] {
        RawPeer peer = listening.greeted();
        peer.write(payloads.one(1, 0));
        peer.read_acks(1);
    });
    REQUIRE(listening.eventually([](const Metrics& now) { return now.active_connections == 2; }));
    if (resets) {
        holder.reset();
    } else {
        holder.half_close();  // acks it may still read, but the sample is lost
    }
    Verifier verifier{payloads};
    learn(listening.server, verifier, 1);
    CHECK(verifier.complaint() == "");
    CHECK(verifier.samples_of(1) == 1);
    waiting.get();
    CHECK(listening.server.metrics().truncated_samples_total == 1);
    CHECK(listening.eventually([](const Metrics& now) { return now.side_buffer_bytes == 0; }));
}

TEST_CASE("Tcp: a server closes while connections hold side buffers and wait for one") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = beyond_the_mark();
    if (!payload) RONDO_SKIP(too_large);
    SideServer listening{*payload, 1, io_threads};
    const Payloads payloads{*payload};
    const Bytes sample = payloads.one(0, 0);
    std::vector<RawPeer> peers;
    std::vector<std::future<void>> writers;
    for (int i = 0; i < 3; ++i) peers.push_back(listening.greeted());
    for (RawPeer& peer : peers) {
        writers.push_back(std::async(std::launch::async, [&] {
            try {
                peer.write(std::span{sample}.first(sample.size() - 1));
            } catch (const std::exception&) {
                // The server has closed.
            }
            peer.read_to_end();
        }));
    }
    REQUIRE(listening.eventually(
        [&](const Metrics& now) { return now.side_buffer_bytes == *payload; }));
    listening.server.close();
    CHECK(listening.server.metrics().side_buffer_bytes == 0);
    CHECK(listening.server.metrics().active_connections == 0);
    for (auto& writer : writers) writer.get();
}

TEST_CASE("Tcp: without memory for a side buffer its connection ends, and the count is right") {
    if (sanitized) RONDO_SKIP("a sanitizer's allocator ends the program instead of throwing");
    const auto pool = std::make_shared<rondo::detail::SideBuffers>(
        0, static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 2);
    rondo::detail::SideBuffers::Attempt attempt{pool};
    const auto buffer = attempt();
    REQUIRE(buffer.has_value());
    CHECK_FALSE(static_cast<bool>(*buffer));
    CHECK(pool->bytes_out() == 0);
}
