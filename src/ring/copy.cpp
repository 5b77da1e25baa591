// SPDX-License-Identifier: Apache-2.0
#include "ring/copy.hpp"

#include "ring/stream_copy.hpp"
#include <rondo/detail/assert.hpp>

#include <algorithm>
#include <cstring>

namespace rondo::detail {
namespace {

/// Payloads are taken in groups of about this many bytes, so that a group stays in the first-level
/// cache while array after array is picked out of it.
constexpr std::uint64_t group_bytes = std::uint64_t{16} << 10;

/// Slots are in no near cache once a ring's worth of samples has come through the socket, and what
/// is written to an array in one go is too short for the hardware to see it coming. So the memory
/// this many bytes ahead is asked for. A prefetch never faults, so it may pass the array's end.
constexpr std::uint64_t prefetch_ahead = 1'024;
constexpr std::uint64_t cache_line = 64;

/// `gather` of a constant size, so that the compiler makes a plain load and store of each copy.
template <std::size_t Bytes>
void gather_fixed(std::byte* to, const std::byte* from, std::uint64_t from_step,
                  std::uint64_t count) noexcept {
    for (; count > 0; --count, to += Bytes, from += from_step) std::memcpy(to, from, Bytes);
}

/// Packs `count` items, which lie `from_step` apart, at `to`.
void gather(std::byte* to, std::uint64_t item_bytes, const std::byte* from, std::uint64_t from_step,
            std::uint64_t count) noexcept {
    if (item_bytes == from_step) {  // the items are packed already: a sample of one array
        item_bytes *= count;
        count = 1;
    }
    switch (item_bytes) {
        case 0:
            return;  // `to` is null, which memcpy does not accept even for 0 bytes
        case 1:
            return gather_fixed<1>(to, from, from_step, count);
        case 2:
            return gather_fixed<2>(to, from, from_step, count);
        case 4:
            return gather_fixed<4>(to, from, from_step, count);
        case 8:
            return gather_fixed<8>(to, from, from_step, count);
        case 16:
            return gather_fixed<16>(to, from, from_step, count);
        default:
            break;
    }
    const bool worth_it =
        count > 1 && item_bytes >= cache_line;  // else it costs more than it gains
    for (; count > 0; --count, to += item_bytes, from += from_step) {
        for (std::uint64_t line = 0; worth_it && line < item_bytes; line += cache_line) {
            __builtin_prefetch(to + prefetch_ahead + line, 1);
        }
        std::memcpy(to, from, item_bytes);
    }
}

}  // namespace

void copy_payload_in(Ring& ring, std::uint64_t buffer, std::uint64_t first_slot,
                     std::uint64_t count, const std::byte* payloads) noexcept {
    RONDO_ASSERT(first_slot + count <= ring.layout().batch_size(),
                 "a copy stays within one buffer");
    const auto payload_bytes = ring.layout().payload_bytes();
    if (payload_bytes == 0) return;
    const auto group = std::max<std::uint64_t>(1, group_bytes / payload_bytes);
    while (count > 0) {
        const auto n = std::min(count, group);
        for (const Ring::Array& array : ring.arrays()) {
            auto* const to = array.base + buffer * array.stride + first_slot * array.item_bytes;
            gather(to, array.item_bytes, payloads + array.payload_offset, payload_bytes, n);
        }
        payloads += n * payload_bytes;
        first_slot += n;
        count -= n;
    }
}

void copy_stacked_in(Ring& ring, std::uint64_t buffer, std::uint64_t first_slot,
                     std::uint64_t count, std::uint64_t first_row,
                     std::span<const std::span<const std::byte>> arrays) noexcept {
    RONDO_ASSERT(first_slot + count <= ring.layout().batch_size(),
                 "a copy stays within one buffer");
    RONDO_ASSERT(arrays.size() == ring.arrays().size(), "one span per array of the spec");
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const Ring::Array& array = ring.arrays()[i];
        const auto bytes = count * array.item_bytes;
        const auto begin = first_row * array.item_bytes;
        RONDO_ASSERT(begin + bytes <= arrays[i].size(), "an array has all of its rows");
        std::byte* const to = ring.slot(i, buffer, first_slot);
        const std::byte* const from = arrays[i].data() + begin;
        if (bytes >= stream_bytes && ring.layout().total_bytes() > last_level_cache_bytes()) {
            stream_copy(to, from, bytes);
        } else {
            gather(to, bytes, from, 0, 1);
        }
    }
}

}  // namespace rondo::detail
