// SPDX-License-Identifier: Apache-2.0
#include "ring/stream_copy.hpp"

#include "ring/copy.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t size) {
    std::mt19937_64 random{7};
    Bytes bytes(size);
    std::ranges::generate(bytes, [&] { return std::byte(random() & 0xff); });
    return bytes;
}

}  // namespace

TEST_CASE("Stream copy: every alignment and every remainder, and not a byte beyond") {
    constexpr std::size_t line = 64;
    const Bytes from = random_bytes(6 * line);
    for (std::size_t to_offset = 0; to_offset < line; ++to_offset) {
        for (const std::size_t from_offset : std::array<std::size_t, 4>{0, 1, 8, 63}) {
            for (std::size_t bytes = 0; bytes <= 4 * line; bytes += (bytes < 130 ? 1 : 31)) {
                Bytes to(7 * line);
                const std::size_t begin = to_offset + line;
                rondo::detail::stream_copy(to.data() + begin, from.data() + from_offset, bytes);
                Bytes expected(7 * line);
                std::copy_n(from.data() + from_offset, bytes, expected.data() + begin);
                REQUIRE(to == expected);
            }
        }
    }
}

TEST_CASE("Stream copy: large rows arrive in a ring beyond the cache") {
    constexpr std::uint64_t item = 200'000;  // no multiple of a line: rows are not aligned
    auto spec = rondo::SampleSpec::create(
        {{"large", rondo::dtype::uint8, {item}}, {"small", rondo::dtype::uint8, {3}}});
    REQUIRE(spec.has_value());
    const std::uint64_t batch_size = rondo::detail::last_level_cache_bytes() / item + 1;
    auto layout = rondo::detail::RingLayout::create(*spec, batch_size, 1);
    REQUIRE(layout.has_value());
    auto ring = rondo::detail::Ring::create(*std::move(layout));
    REQUIRE(ring.has_value());

    constexpr std::uint64_t rows = 3;
    const Bytes large = random_bytes(rows * item);
    const Bytes small = random_bytes(rows * 3);
    const std::span<const std::byte> arrays[] = {large, small};
    rondo::detail::copy_stacked_in(*ring, 0, 5, 2, 1, arrays);

    CHECK(std::ranges::equal(ring->batch(0, 0, batch_size).subspan(5 * item, 2 * item),
                             std::span{large}.subspan(item, 2 * item)));
    CHECK(std::ranges::equal(ring->batch(1, 0, batch_size).subspan(15, 6),
                             std::span{small}.subspan(3, 6)));
    CHECK(ring->batch(0, 0, batch_size)[5 * item - 1] == std::byte{0});
    CHECK(ring->batch(0, 0, batch_size)[7 * item] == std::byte{0});
}
