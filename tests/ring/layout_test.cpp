// SPDX-License-Identifier: Apache-2.0
#include "ring/layout.hpp"

#include "support/catch.hpp"

#include <limits>

using rondo::InvalidOptions;
using rondo::RingMemory;
using rondo::SampleSpec;
using rondo::detail::RingLayout;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t kib_64 = 65536;

SampleSpec spec_of(std::string_view text) {
    const rondo::SpecLimits anything{.max_payload_bytes =
                                         std::numeric_limits<std::uint64_t>::max()};
    auto spec = SampleSpec::parse(text, anything);
    REQUIRE(spec.has_value());
    return *spec;
}

RingLayout layout_of(std::string_view text, std::uint64_t batch_size, std::uint64_t num_buffers,
                     std::uint64_t page_bytes = page) {
    auto layout = RingLayout::create(spec_of(text), batch_size, num_buffers, page_bytes);
    REQUIRE(layout.has_value());
    return *std::move(layout);
}

}  // namespace

TEST_CASE("Ring: a small batch is padded to a cache line and its region to a page") {
    const auto layout = layout_of("obs:float32[4],reward:float32[]", 10, 3);
    REQUIRE(layout.arrays().size() == 2);
    const auto& obs = layout.arrays()[0];
    CHECK(obs.item_bytes == 16);
    CHECK(obs.batch_bytes == 160);
    CHECK(obs.stride == 192);
    CHECK(obs.region_bytes == page);
    CHECK(obs.payload_offset == 0);
    const auto& reward = layout.arrays()[1];
    CHECK(reward.item_bytes == 4);
    CHECK(reward.stride == 64);
    CHECK(reward.payload_offset == 16);
    CHECK(layout.payload_bytes() == 20);
    CHECK(layout.total_bytes() == 2 * page);
    CHECK(layout.batch_size() == 10);
    CHECK(layout.num_buffers() == 3);
}

TEST_CASE("Ring: a batch of 64 KiB starts on a page, one byte less on a cache line") {
    CHECK(layout_of("a:uint8[65536]", 1, 2).arrays()[0].stride == 65536);
    CHECK(layout_of("a:uint8[65537]", 1, 2).arrays()[0].stride == 65536 + page);
    CHECK(layout_of("a:uint8[1]", 65537, 2).arrays()[0].stride == 65536 + page);
    CHECK(layout_of("a:uint8[65472]", 1, 2).arrays()[0].stride == 65472);
    CHECK(layout_of("a:uint8[65535]", 1, 2).arrays()[0].stride == 65536);
    CHECK(layout_of("a:uint8[65473]", 1, 3).arrays()[0].region_bytes == 3 * kib_64);
}

TEST_CASE("Ring: the page size of the machine is respected") {
    const auto layout = layout_of("a:uint8[65537],b:uint8[]", 1, 2, 65536);
    CHECK(layout.arrays()[0].stride == 2 * kib_64);
    CHECK(layout.arrays()[0].region_bytes == 4 * kib_64);
    CHECK(layout.arrays()[1].stride == 64);
    CHECK(layout.arrays()[1].region_bytes == 65536);
}

TEST_CASE("Ring: an array of 0 bytes has an empty region") {
    const auto layout = layout_of("none:float32[0,7],some:int8[]", 5, 2);
    const auto& none = layout.arrays()[0];
    CHECK(none.item_bytes == 0);
    CHECK(none.batch_bytes == 0);
    CHECK(none.stride == 0);
    CHECK(none.region_bytes == 0);
    CHECK(layout.total_bytes() == page);
    CHECK(layout_of("none:float32[0]", 5, 2).total_bytes() == 0);
}

TEST_CASE("Ring: no samples or no buffers is an invalid option") {
    const auto spec = spec_of("a:uint8[]");
    const auto no_batch = RingLayout::create(spec, 0, 3);
    REQUIRE_FALSE(no_batch.has_value());
    const auto* batch_size = no_batch.error().as<InvalidOptions>();
    REQUIRE(batch_size != nullptr);
    CHECK(batch_size->field == "batch_size");
    CHECK(batch_size->value == "0");
    CHECK(batch_size->rule == "must be at least 1");

    const auto no_buffers = RingLayout::create(spec, 3, 0);
    REQUIRE_FALSE(no_buffers.has_value());
    REQUIRE(no_buffers.error().as<InvalidOptions>() != nullptr);
    CHECK(no_buffers.error().as<InvalidOptions>()->field == "num_buffers");
}

TEST_CASE("Ring: a size beyond 64 bits can never fit") {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    const auto overflows = [](std::string_view text, std::uint64_t batch_size,
                              std::uint64_t num_buffers) {
        const auto layout = RingLayout::create(spec_of(text), batch_size, num_buffers, page);
        if (layout) return false;
        const auto* memory = layout.error().as<RingMemory>();
        return memory != nullptr && !memory->can_ever_fit &&
               memory->limited_by == "64-bit address space" && memory->wanted == most;
    };
    CHECK(overflows("a:uint16[]", most, 1));                   // the batch
    CHECK(overflows("a:uint8[]", most, 1));                    // the batch, rounded to a page
    CHECK(overflows("a:uint8[]", most / 2, 3));                // the buffers
    CHECK(overflows("a:uint8[9223372036854775807]", 1, 2));    // the buffers, rounded
    CHECK(overflows("a:uint8[],b:uint8[]", most / 2 + 1, 1));  // the sum
    CHECK_FALSE(overflows("a:uint8[]", most / 2 + 1, 1));
    CHECK_FALSE(overflows("a:uint8[0]", most, most));
}
