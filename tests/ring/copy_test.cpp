// SPDX-License-Identifier: Apache-2.0
#include "ring/copy.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

using rondo::SampleSpec;
using rondo::detail::Ring;
using rondo::detail::RingLayout;

namespace {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

std::uint64_t draw(Random& random, std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>{least, most}(random);
}

Bytes random_bytes(Random& random, std::uint64_t size) {
    Bytes bytes(size);
    std::ranges::generate(bytes, [&] { return std::byte(random() & 0xff); });
    return bytes;
}

/// Mostly the sizes that have a path of their own, and their neighbours.
SampleSpec random_spec(Random& random) {
    constexpr std::uint64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 64, 1000, 40'000};
    std::vector<rondo::ArraySpec> arrays;
    const auto count = draw(random, 1, 6);
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto size = sizes[draw(random, 0, std::size(sizes) - 1)];
        arrays.push_back({"a" + std::to_string(i), rondo::dtype::uint8, {size}});
    }
    auto spec = SampleSpec::create(std::move(arrays));
    REQUIRE(spec.has_value());
    return *std::move(spec);
}

Ring ring_of(const SampleSpec& spec, std::uint64_t batch_size, std::uint64_t num_buffers) {
    auto layout = RingLayout::create(spec, batch_size, num_buffers);
    REQUIRE(layout.has_value());
    auto ring = Ring::create(*std::move(layout));
    REQUIRE(ring.has_value());
    return *std::move(ring);
}

/// Everything in all regions, padding included: a stray byte shows.
std::vector<Bytes> contents(const Ring& ring) {
    std::vector<Bytes> all;
    for (const auto& region : ring.regions()) {
        all.emplace_back(region.data, region.data + region.bytes);
    }
    return all;
}

/// One sample, byte by byte, where the accessors say.
void naive_copy(const SampleSpec& spec, Ring& ring, std::uint64_t buffer, std::uint64_t slot,
                const std::byte* payload) {
    for (std::size_t array = 0; array < spec.size(); ++array) {
        for (std::uint64_t i = 0; i < spec.array_bytes(array); ++i) {
            ring.slot(array, buffer, slot)[i] = payload[spec.array_offset(array) + i];
        }
    }
}

}  // namespace

TEST_CASE("Ring: payloads are scattered as by a naive copy") {
    Random random{20'240'601};
    for (int round = 0; round < 120; ++round) {
        const auto spec = random_spec(random);
        const auto batch_size = draw(random, 1, spec.payload_bytes() > 5000 ? 6 : 300);
        auto ring = ring_of(spec, batch_size, 3);
        auto expected = ring_of(spec, batch_size, 3);
        for (int copy = 0; copy < 3; ++copy) {
            const auto buffer = draw(random, 0, 2);
            const auto first = draw(random, 0, batch_size);
            const auto count = draw(random, 0, batch_size - first);
            const auto payloads = random_bytes(random, count * spec.payload_bytes());
            copy_payload_in(ring, buffer, first, count, payloads.data());
            for (std::uint64_t i = 0; i < count; ++i) {
                naive_copy(spec, expected, buffer, first + i,
                           payloads.data() + i * spec.payload_bytes());
            }
        }
        INFO(spec.text() << " in batches of " << batch_size);
        REQUIRE((contents(ring) == contents(expected)));
    }
}

TEST_CASE("Ring: a sample given array by array is copied as by a naive copy") {
    Random random{20'240'602};
    for (int round = 0; round < 60; ++round) {
        const auto spec = random_spec(random);
        const auto batch_size = draw(random, 1, 9);
        auto ring = ring_of(spec, batch_size, 2);
        auto expected = ring_of(spec, batch_size, 2);
        for (std::uint64_t slot = 0; slot < batch_size; slot += 2) {
            const auto payload = random_bytes(random, spec.payload_bytes());
            std::vector<std::span<const std::byte>> arrays;
            for (std::size_t i = 0; i < spec.size(); ++i) {
                arrays.push_back(
                    std::span{payload}.subspan(spec.array_offset(i), spec.array_bytes(i)));
            }
            copy_stacked_in(ring, slot % 2, slot, 1, 0, arrays);
            naive_copy(spec, expected, slot % 2, slot, payload.data());
        }
        INFO(spec.text() << " in batches of " << batch_size);
        REQUIRE((contents(ring) == contents(expected)));
    }
}

TEST_CASE("Ring: rows of stacked arrays are copied as by a naive copy") {
    Random random{20'240'603};
    for (int round = 0; round < 60; ++round) {
        const auto spec = random_spec(random);
        const auto batch_size = draw(random, 1, 12);
        auto ring = ring_of(spec, batch_size, 2);
        auto expected = ring_of(spec, batch_size, 2);

        const auto first_slot = draw(random, 0, batch_size - 1);
        const auto count = draw(random, 0, batch_size - first_slot);
        const auto first_row = draw(random, 0, 5);
        const auto rows = first_row + count + draw(random, 0, 3);
        std::vector<Bytes> stacked;
        for (std::size_t i = 0; i < spec.size(); ++i) {
            stacked.push_back(random_bytes(random, rows * spec.array_bytes(i)));
        }
        const std::vector<std::span<const std::byte>> arrays(stacked.begin(), stacked.end());
        copy_stacked_in(ring, 1, first_slot, count, first_row, arrays);

        for (std::uint64_t i = 0; i < count; ++i) {
            for (std::size_t array = 0; array < spec.size(); ++array) {
                const auto bytes = spec.array_bytes(array);
                std::copy_n(stacked[array].data() + (first_row + i) * bytes, bytes,
                            expected.slot(array, 1, first_slot + i));
            }
        }
        INFO(spec.text() << " in batches of " << batch_size);
        REQUIRE((contents(ring) == contents(expected)));
    }
}
