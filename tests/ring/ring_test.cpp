// SPDX-License-Identifier: Apache-2.0
#include "ring/ring.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>

using rondo::RingMemory;
using rondo::SampleSpec;
using rondo::detail::page_size;
using rondo::detail::Ring;
using rondo::detail::RingLayout;
using rondo::detail::RingMemoryOptions;

namespace {

RingLayout layout_of(std::string_view text, std::uint64_t batch_size, std::uint64_t num_buffers) {
    auto spec = SampleSpec::parse(text);
    REQUIRE(spec.has_value());
    auto layout = RingLayout::create(*spec, batch_size, num_buffers);
    REQUIRE(layout.has_value());
    return *std::move(layout);
}

Ring ring_of(std::string_view text, std::uint64_t batch_size, std::uint64_t num_buffers,
             RingMemoryOptions options = {}) {
    auto ring = Ring::create(layout_of(text, batch_size, num_buffers), options);
    REQUIRE(ring.has_value());
    return *std::move(ring);
}

std::uintptr_t address(const std::byte* p) {
    return reinterpret_cast<std::uintptr_t>(p);
}

/// Addresses from `begin` up to `end`.
struct Extent {
    std::uintptr_t begin;
    std::uintptr_t end;
};

/// What /proc/self/maps lists as anonymous, private and writable; neighbours are one line there.
std::vector<Extent> anonymous_maps() {
    std::vector<Extent> maps;
    std::ifstream file{"/proc/self/maps"};
    for (std::string line; std::getline(file, line);) {
        unsigned long begin = 0;
        unsigned long end = 0;
        unsigned long inode = 1;
        char mode[5] = {};
        const int read =
            std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %lu", &begin, &end, mode, &inode);
        if (read == 4 && inode == 0 && std::string{mode} == "rw-p") maps.push_back({begin, end});
    }
    return maps;
}

bool contains(const std::vector<Extent>& extents, std::uintptr_t at) {
    return std::ranges::any_of(extents,
                               [at](const Extent& e) { return e.begin <= at && at < e.end; });
}

std::uint64_t total_bytes(const std::vector<Extent>& extents) {
    std::uint64_t total = 0;
    for (const Extent& e : extents) total += e.end - e.begin;
    return total;
}

bool is_mapped(std::byte* page) {
    unsigned char resident = 0;
    return ::mincore(page, page_size(), &resident) == 0;
}

std::uint64_t resident_pages(const Ring::Region& region) {
    std::vector<unsigned char> resident(region.bytes / page_size());
    REQUIRE(::mincore(region.data, region.bytes, resident.data()) == 0);
    return static_cast<std::uint64_t>(
        std::ranges::count_if(resident, [](unsigned char flags) { return (flags & 1) != 0; }));
}

}  // namespace

TEST_CASE("Ring: every buffer starts on a cache line, and on a page from 64 KiB on") {
    const auto ring = ring_of("big:uint8[1000],small:float32[3],byte:uint8[]", 70, 5);
    for (std::uint64_t buffer = 0; buffer < 5; ++buffer) {
        CHECK(address(ring.slot(0, buffer, 0)) % page_size() == 0);
        CHECK(address(ring.slot(1, buffer, 0)) % 64 == 0);
        CHECK(address(ring.slot(2, buffer, 0)) % 64 == 0);
    }
    for (const auto& region : ring.regions()) CHECK(address(region.data) % page_size() == 0);
}

TEST_CASE("Ring: no two batches overlap, and each lies in its array's region") {
    const auto ring = ring_of("a:uint8[7],b:float64[],c:uint8[3000]", 33, 4);
    std::vector<Extent> batches;
    REQUIRE(ring.regions().size() == 3);
    for (const auto& region : ring.regions()) {
        for (std::uint64_t buffer = 0; buffer < 4; ++buffer) {
            const auto batch = ring.batch(region.array, buffer, 33);
            CHECK(batch.size() == ring.layout().arrays()[region.array].batch_bytes);
            CHECK(batch.data() >= region.data);
            CHECK(batch.data() + batch.size() <= region.data + region.bytes);
            batches.push_back({address(batch.data()), address(batch.data() + batch.size())});
        }
    }
    std::ranges::sort(batches, {}, &Extent::begin);
    for (std::size_t i = 1; i < batches.size(); ++i) CHECK(batches[i - 1].end <= batches[i].begin);
}

TEST_CASE("Ring: the samples of a batch are contiguous") {
    const auto ring = ring_of("a:uint8[7]", 9, 2);
    for (std::uint64_t i = 0; i < 9; ++i) CHECK(ring.slot(0, 1, i) == ring.slot(0, 1, 0) + 7 * i);
    CHECK(ring.batch(0, 1, 4).data() == ring.slot(0, 1, 0));
    CHECK(ring.batch(0, 1, 4).size() == 28);
    CHECK(ring.batch(0, 1, 0).empty());
}

TEST_CASE("Ring: arrays of 0 bytes have no region and empty batches") {
    const auto ring = ring_of("none:float32[0],some:uint8[],nil:uint8[3,0]", 4, 2);
    REQUIRE(ring.regions().size() == 1);
    CHECK(ring.regions()[0].array == 1);
    CHECK(ring.slot(0, 1, 3) == nullptr);
    CHECK(ring.batch(2, 1, 4).empty());
    CHECK(ring_of("none:float32[0]", 4, 2).regions().empty());
}

TEST_CASE("Ring: memory starts as zeros and keeps what is written") {
    const auto ring = ring_of("a:uint8[5],b:uint16[300]", 40, 3);
    const auto value = [](std::size_t array, std::uint64_t buffer, std::uint64_t i) {
        return std::byte{static_cast<unsigned char>(array * 101 + buffer * 31 + i * 7 + 1)};
    };
    for (std::size_t array = 0; array < 2; ++array) {
        for (std::uint64_t buffer = 0; buffer < 3; ++buffer) {
            const auto batch = ring.batch(array, buffer, 40);
            CHECK(std::ranges::count(batch, std::byte{}) == std::ptrdiff_t(batch.size()));
            for (std::uint64_t i = 0; i < 40; ++i) {
                std::memset(ring.slot(array, buffer, i), int(value(array, buffer, i)),
                            ring.layout().arrays()[array].item_bytes);
            }
        }
    }
    for (std::size_t array = 0; array < 2; ++array) {
        const auto item = ring.layout().arrays()[array].item_bytes;
        for (std::uint64_t buffer = 0; buffer < 3; ++buffer) {
            const auto batch = ring.batch(array, buffer, 40);
            std::uint64_t wrong = 0;
            for (std::uint64_t at = 0; at < batch.size(); ++at) {
                wrong += batch[at] != value(array, buffer, at / item);
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("Ring: mappings are exactly as long as the layout says, and gone afterwards") {
    const auto before = anonymous_maps();
    std::vector<Ring::Region> regions;
    {
        const auto ring = ring_of("a:uint8[5000],b:uint8[9000],c:uint8[]", 1, 3);
        regions.assign(ring.regions().begin(), ring.regions().end());
        std::vector<Extent> ours;
        for (const auto& region : regions) {
            CHECK(region.bytes == ring.layout().arrays()[region.array].region_bytes);
            ours.push_back({address(region.data), address(region.data) + region.bytes});
        }
        CHECK(total_bytes(ours) == ring.layout().total_bytes());

        // Neighbouring mappings are one line in the list, so pages are compared, not lines.
        const auto after = anonymous_maps();
        for (const Extent& region : ours) {
            for (auto page = region.begin; page < region.end; page += page_size()) {
                CHECK(contains(after, page));
                CHECK_FALSE(contains(before, page));
            }
            for (const auto page : {region.begin - page_size(), region.end}) {
                CHECK((!contains(after, page) || contains(before, page) || contains(ours, page)));
            }
        }
    }
    for (const auto& region : regions) {
        for (std::uint64_t at = 0; at < region.bytes; at += page_size()) {
            CHECK_FALSE(is_mapped(region.data + at));
        }
    }
}

TEST_CASE("Ring: pre-faulting makes every page resident, and without it none is") {
    const std::string_view spec = "big:uint8[1000000],small:uint8[]";
    const auto lazy = ring_of(spec, 30, 3, {.huge_pages = false});
    for (const auto& region : lazy.regions()) CHECK(resident_pages(region) == 0);

    for (const bool huge_pages : {false, true}) {  // 90 MB: several chunks
        const auto ring = ring_of(spec, 30, 3, {.huge_pages = huge_pages, .prefault = true});
        for (const auto& region : ring.regions()) {
            CHECK(resident_pages(region) == region.bytes / page_size());
        }
    }
}

TEST_CASE("Ring: more than the machine has is refused before anything is allocated") {
    const auto before = total_bytes(anonymous_maps());
    auto layout = layout_of("a:uint8[1048576],b:uint8[]", std::uint64_t{1} << 30, 3);
    const auto wanted = layout.total_bytes();
    const auto ring = Ring::create(std::move(layout), {.huge_pages = true, .prefault = true});
    REQUIRE_FALSE(ring.has_value());
    const auto* memory = ring.error().as<RingMemory>();
    REQUIRE(memory != nullptr);
    CHECK_FALSE(memory->can_ever_fit);
    CHECK(memory->wanted == wanted);
    CHECK(memory->available < wanted);
    CHECK_FALSE(memory->limited_by.empty());
    CHECK(total_bytes(anonymous_maps()) < before + wanted / 2);
}

TEST_CASE("Ring: moving keeps every address and leaves nothing behind") {
    auto first = ring_of("a:uint8[100],b:uint8[]", 8, 2);
    std::byte* const slot = first.slot(1, 1, 3);
    *slot = std::byte{42};

    Ring second{std::move(first)};
    CHECK(second.slot(1, 1, 3) == slot);
    CHECK(second.layout().batch_size() == 8);
    // NOLINTBEGIN(bugprone-use-after-move): what a moved-from ring promises
    CHECK(first.regions().empty());
    CHECK(first.arrays().empty());
    CHECK(first.layout().arrays().empty());
    // NOLINTEND(bugprone-use-after-move)

    auto third = ring_of("c:uint8[9000]", 2, 2);
    std::byte* const replaced = third.slot(0, 0, 0);
    third = std::move(second);
    CHECK(*third.slot(1, 1, 3) == std::byte{42});
    CHECK_FALSE(is_mapped(replaced));
    CHECK(second.regions().empty());  // NOLINT(bugprone-use-after-move)

    first = ring_of("d:uint8[]", 1, 1);  // a moved-from ring can be used again
    CHECK(first.regions().size() == 1);
}
