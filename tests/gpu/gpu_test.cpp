// SPDX-License-Identifier: Apache-2.0
// What a CUDA runtime, asked through a loader of the test's own, says of rondo's memory. Skipped
// where there is no device; RONDO_TEST_CUDART and RONDO_CUDART may name a stand-in for both sides.
#include "support/catch.hpp"
#include "support/cudart.hpp"
#include <rondo/server.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

using rondo::ArrayBytes;
using rondo::Batch;
using rondo::SampleSpec;
using rondo::Server;
using rondo::ServerOptions;
using rondo::test::Cudart;
using rondo::test::CudaStream;

#define CUDART_OR_SKIP(name)                                       \
    const auto opened_##name = Cudart::open();                     \
    if (!opened_##name) RONDO_SKIP(opened_##name.error().c_str()); \
    const Cudart& name = *opened_##name

namespace {

constexpr std::uint64_t batch_size = 64;

/// Arrays below and above a page, one of several pages that a sample does not fill, and an empty.
SampleSpec mixed_spec() {
    return *SampleSpec::parse("obs:uint8[84,84,4],reward:float32[],none:float32[0],id:uint64[3]");
}

Server server_of(const ServerOptions& options) {
    auto server = Server::create(mixed_spec(), options);
    if (!server) FAIL(server.error().message());
    return *std::move(server);
}

Server pinned_server() {
    return server_of({.batch_size = batch_size, .num_buffers = 2, .pin_host_memory = true});
}

/// Random bytes, the same for the same seed: one batch.
std::vector<std::vector<std::byte>> stacked_batch(const SampleSpec& spec, unsigned seed) {
    std::mt19937_64 random{seed};
    std::vector<std::vector<std::byte>> arrays;
    for (std::size_t i = 0; i < spec.size(); ++i) {
        auto& bytes = arrays.emplace_back(spec.array_bytes(i) * batch_size);
        std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
    }
    return arrays;
}

Batch next_batch(Server& server, unsigned seed = 0) {
    const auto arrays = stacked_batch(server.spec(), seed);
    const std::vector<ArrayBytes> stacked{arrays.begin(), arrays.end()};
    REQUIRE(server.blocking_insert_many(stacked, batch_size).has_value());
    auto batch = server.blocking_sample();
    REQUIRE(batch.has_value());
    return *std::move(batch);
}

/// The bytes that matter: the first and the last of every array that has any.
std::vector<const std::byte*> edges(const Batch& batch) {
    std::vector<const std::byte*> bytes;
    for (std::size_t i = 0; i < batch.spec().size(); ++i) {
        const auto array = batch.array<std::byte>(i);
        if (array.empty()) continue;
        bytes.push_back(&array.front());
        bytes.push_back(&array.back());
    }
    return bytes;
}

std::size_t locked_edges(const Cudart& cudart, const Batch& batch) {
    const auto bytes = edges(batch);
    return static_cast<std::size_t>(
        std::ranges::count_if(bytes, [&](const std::byte* byte) { return cudart.locked(byte); }));
}

/// The bytes after a journey to the device and back.
std::vector<std::byte> by_way_of_the_device(const Cudart& cudart, ArrayBytes bytes) {
    std::vector<std::byte> back(bytes.size());
    if (bytes.empty()) return back;
    void* device = nullptr;
    CudaStream stream = nullptr;
    REQUIRE(cudart.malloc(&device, bytes.size()) == 0);
    REQUIRE(cudart.stream_create(&stream, Cudart::non_blocking) == 0);
    CHECK(cudart.memcpy_async(device, bytes.data(), bytes.size(), Cudart::host_to_device, stream) ==
          0);
    CHECK(cudart.memcpy_async(back.data(), device, bytes.size(), Cudart::device_to_host, stream) ==
          0);
    CHECK(cudart.stream_synchronize(stream) == 0);
    CHECK(cudart.stream_destroy(stream) == 0);
    CHECK(cudart.free(device) == 0);
    return back;
}

}  // namespace

TEST_CASE("GPU: the runtime knows every array of a leased batch as page-locked, to its last byte") {
    CUDART_OR_SKIP(cudart);
    auto server = pinned_server();
    for (unsigned round = 0; round < 5; ++round) {  // through every buffer, and around the ring
        const auto batch = next_batch(server);
        CHECK(locked_edges(cudart, batch) == 6);
    }
}

TEST_CASE("GPU: without pinning the runtime knows nothing of a batch") {
    CUDART_OR_SKIP(cudart);
    auto server = server_of({.batch_size = batch_size, .prefault = true});
    const auto batch = next_batch(server);
    CHECK(edges(batch).size() == 6);
    CHECK(locked_edges(cudart, batch) == 0);
}

TEST_CASE("GPU: two servers are page-locked, and neither's end unlocks the other") {
    CUDART_OR_SKIP(cudart);
    auto first = std::optional{pinned_server()};
    auto second = pinned_server();
    const auto batch = next_batch(second);
    {
        const auto other = next_batch(*first);
        CHECK(locked_edges(cudart, other) == 6);
        CHECK(locked_edges(cudart, batch) == 6);
    }
    first.reset();
    CHECK(locked_edges(cudart, batch) == 6);
}

TEST_CASE("GPU: memory stays page-locked as long as a batch lives, and no longer") {
    CUDART_OR_SKIP(cudart);
    auto server = std::optional{pinned_server()};
    auto batch = std::optional{next_batch(*server)};
    server.reset();
    CHECK(locked_edges(cudart, *batch) == 6);
    const auto bytes = edges(*batch);
    batch.reset();
    CHECK(std::ranges::none_of(bytes, [&](const std::byte* b) { return cudart.locked(b); }));
}

TEST_CASE("GPU: a server can be destroyed and made again, many times") {
    CUDART_OR_SKIP(cudart);
    for (unsigned round = 0; round < 10; ++round) {
        auto server = pinned_server();
        const auto batch = next_batch(server, round);
        CHECK(locked_edges(cudart, batch) == 6);
    }
}

TEST_CASE("GPU: batches are the same to the bit with and without pinning, on the device too") {
    CUDART_OR_SKIP(cudart);
    auto pinned = pinned_server();
    auto plain = server_of({.batch_size = batch_size, .num_buffers = 2});
    for (unsigned seed = 0; seed < 3; ++seed) {
        const auto expected = stacked_batch(pinned.spec(), seed);
        const auto locked = next_batch(pinned, seed);
        const auto pageable = next_batch(plain, seed);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            CAPTURE(seed, i);
            CHECK(std::ranges::equal(locked.array<std::byte>(i), expected[i]));
            CHECK(std::ranges::equal(pageable.array<std::byte>(i), expected[i]));
            CHECK(by_way_of_the_device(cudart, locked.array<std::byte>(i)) == expected[i]);
            CHECK(by_way_of_the_device(cudart, pageable.array<std::byte>(i)) == expected[i]);
        }
    }
}
