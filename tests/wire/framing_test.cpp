// SPDX-License-Identifier: Apache-2.0
#include "wire/framing.hpp"

#include "support/catch.hpp"
#include <rondo/spec.hpp>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace rondo;
using namespace rondo::wire;

namespace {

using Bytes = std::vector<std::byte>;

/// `arrays` arrays of together `payload` bytes. Precondition: payload >= arrays.
SampleSpec spec_of(std::uint64_t payload, std::size_t arrays = 1) {
    std::vector<ArraySpec> specs;
    for (std::size_t i = 0; i + 1 < arrays; ++i) {
        specs.push_back({std::to_string(i), dtype::uint8, {}});
    }
    specs.push_back({"last", dtype::uint8, {payload - arrays + 1}});
    SpecLimits limits;
    limits.max_payload_bytes = std::numeric_limits<std::uint64_t>::max();
    return SampleSpec::create(std::move(specs), limits).value();
}

Bytes random_bytes(std::mt19937& random, std::size_t size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xffU);
    return bytes;
}

/// What the buffered strategy does with a stream: a buffer, of which only the tail is kept.
struct BufferedReader {
    PayloadFramer framer;
    Bytes tail;
    Bytes committed;
    std::uint64_t samples = 0;

    void read(std::span<const std::byte> data) {
        Bytes buffer = tail;
        buffer.insert(buffer.end(), data.begin(), data.end());
        const auto [count, whole, rest] = framer.split(buffer);
        committed.insert(committed.end(), whole.begin(), whole.end());
        samples += count;
        tail.assign(rest.begin(), rest.end());
    }
};

}  // namespace

TEST_CASE("PayloadFramer: any split of the stream gives the same samples", "[wire][framing]") {
    std::mt19937 random{4711};
    for (int round = 0; round < 300; ++round) {
        const std::size_t payload = 1 + random() % 40;
        const Bytes stream = random_bytes(random, random() % 400);
        const std::size_t whole = stream.size() / payload;
        const std::size_t max_piece = 1 + random() % 100;

        BufferedReader reader{PayloadFramer{spec_of(payload)}, {}, {}};
        for (std::span<const std::byte> left{stream}; !left.empty();) {
            const std::size_t piece =
                std::min<std::size_t>(random() % (max_piece + 1), left.size());
            reader.read(left.first(piece));
            left = left.subspan(piece);
            REQUIRE(reader.tail.size() < payload);
        }
        REQUIRE(reader.samples == whole);
        REQUIRE(std::ranges::equal(reader.committed, std::span{stream}.first(whole * payload)));
        REQUIRE(std::ranges::equal(reader.tail, std::span{stream}.subspan(whole * payload)));
    }
}

TEST_CASE("PayloadFramer: one byte at a time completes each sample once", "[wire][framing]") {
    BufferedReader reader{PayloadFramer{spec_of(7)}, {}, {}};
    const std::array one{std::byte{9}};
    for (std::size_t i = 1; i <= 70; ++i) {
        REQUIRE(reader.framer.missing(reader.tail.size()) == 7 - (i - 1) % 7);
        reader.read(one);
        REQUIRE(reader.samples == i / 7);
        REQUIRE(reader.tail.size() == i % 7);  // a close now truncates, unless 0
    }
}

TEST_CASE("PayloadFramer: split borrows, it does not copy", "[wire][framing]") {
    const PayloadFramer framer{spec_of(4)};
    const Bytes data(11);
    const auto [samples, whole, rest] = framer.split(data);
    CHECK(samples == 2);
    CHECK(whole.data() == data.data());
    CHECK(whole.size() == 8);
    CHECK(rest.data() == data.data() + 8);
    CHECK(rest.size() == 3);

    CHECK(framer.split({}).samples == 0);
    CHECK(framer.split(std::span{data}.first(3)).samples == 0);
    CHECK(framer.split(std::span{data}.first(4)).rest.empty());
}

TEST_CASE("PayloadFramer: a scatter completes as many samples as are wholly available",
          "[wire][framing]") {
    const PayloadFramer framer{spec_of(100, 3)};
    CHECK(framer.scatter(0, 0) == 0);
    CHECK(framer.scatter(0, 99) == 0);
    CHECK(framer.scatter(0, 100) == 1);
    CHECK(framer.scatter(0, 199) == 1);
    CHECK(framer.scatter(0, 200) == 2);
    CHECK(framer.scatter(60, 39) == 0);
    CHECK(framer.scatter(60, 40) == 1);
    CHECK(framer.scatter(60, 139) == 1);
    CHECK(framer.scatter(60, 140) == 2);
    CHECK(framer.missing(0) == 100);
    CHECK(framer.missing(99) == 1);
}

TEST_CASE("PayloadFramer: a scatter takes no more iovecs than readv does", "[wire][framing]") {
    CHECK(PayloadFramer{spec_of(10'000)}.scatter(0, 1'000'000'000) == IOV_MAX);
    CHECK(PayloadFramer{spec_of(10'000, 3)}.scatter(0, 1'000'000'000) == IOV_MAX / 3);
    CHECK(PayloadFramer{spec_of(10'000, 3)}.scatter(9'999, 1'000'000'000) == IOV_MAX / 3);
    CHECK(PayloadFramer{spec_of(10'000, IOV_MAX)}.scatter(0, 1'000'000'000) == 1);
    CHECK(PayloadFramer{spec_of(10'000, IOV_MAX)}.can_scatter());
    CHECK_FALSE(PayloadFramer{spec_of(10'000, IOV_MAX + 1)}.can_scatter());
}

TEST_CASE("PayloadFramer: sizes near 64 bits do not wrap", "[wire][framing]") {
    constexpr auto max = std::numeric_limits<std::uint64_t>::max();
    const PayloadFramer framer{spec_of(max)};
    CHECK(framer.scatter(0, max - 1) == 0);
    CHECK(framer.scatter(0, max) == 1);
    CHECK(framer.scatter(max - 1, max) == 1);
    CHECK(framer.missing(max - 1) == 1);
    CHECK(PayloadFramer{spec_of(max / 2)}.scatter(max / 2 - 1, max) == 3);
}

TEST_CASE("PayloadFramer: scattering and splitting agree on any stream", "[wire][framing]") {
    std::mt19937 random{1234};
    for (int round = 0; round < 300; ++round) {
        const std::size_t arrays = 1 + random() % 3;
        const std::size_t payload = arrays + random() % 40;
        const PayloadFramer framer{spec_of(payload, arrays)};
        const std::uint64_t total = random() % 5'000;

        std::uint64_t arrived = 0;  // in the kernel, not read
        std::uint64_t held = 0;     // in the side buffer
        std::uint64_t samples = 0;
        for (std::uint64_t sent = 0; sent < total || arrived > 0;) {
            const std::uint64_t burst = std::min<std::uint64_t>(random() % 200, total - sent);
            sent += burst;
            arrived += burst;
            const std::uint64_t complete = framer.scatter(held, arrived);
            if (complete > 0) {
                arrived -= framer.missing(held) + (complete - 1) * payload;
                held = 0;
                samples += complete;
            } else if (sent == total || random() % 2 == 0) {
                held += std::exchange(arrived, 0);
                REQUIRE(held < payload);
            }
        }
        REQUIRE(samples == total / payload);
        REQUIRE(held == total % payload);
    }
}
