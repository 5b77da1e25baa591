// SPDX-License-Identifier: Apache-2.0
#include "ring/layout.hpp"

#include "spec/checked.hpp"
#include <rondo/detail/assert.hpp>

#include <bit>
#include <limits>
#include <optional>
#include <unistd.h>
#include <utility>

namespace rondo::detail {
namespace {

constexpr std::uint64_t cache_line = 64;

/// From this many bytes on, page-aligned buffers cost at most a sixteenth of the memory (on pages
/// of 4 KiB) and let whole pages be copied, mapped or advised buffer by buffer.
constexpr std::uint64_t page_aligned_from = std::uint64_t{64} << 10;

std::optional<std::uint64_t> round_up(std::uint64_t value, std::uint64_t alignment) {
    const auto raised = checked_add(value, alignment - 1);
    return raised ? std::optional{*raised & ~(alignment - 1)} : std::nullopt;
}

/// Nothing when a size exceeds 64 bits.
std::optional<ArrayLayout> lay_out(std::uint64_t item_bytes, std::uint64_t batch_size,
                                   std::uint64_t num_buffers, std::uint64_t page_bytes) {
    const auto batch_bytes = checked_mul(item_bytes, batch_size);
    if (!batch_bytes) return std::nullopt;
    const auto stride =
        round_up(*batch_bytes, *batch_bytes >= page_aligned_from ? page_bytes : cache_line);
    if (!stride) return std::nullopt;
    const auto all_buffers = checked_mul(*stride, num_buffers);
    if (!all_buffers) return std::nullopt;
    const auto region_bytes = round_up(*all_buffers, page_bytes);
    if (!region_bytes) return std::nullopt;
    return ArrayLayout{.item_bytes = item_bytes,
                       .batch_bytes = *batch_bytes,
                       .stride = *stride,
                       .region_bytes = *region_bytes,
                       .payload_offset = 0};
}

PinError zero(const char* field) {
    return PinError{InvalidOptions{field, "0", "must be at least 1"}};
}

PinError overflow() {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    return PinError{RingMemory{.wanted = most,
                               .available = most,
                               .can_ever_fit = false,
                               .limited_by = "64-bit address space"}};
}

}  // namespace

std::uint64_t page_size() noexcept {
    static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

tl::expected<RingLayout, PinError> RingLayout::create(const SampleSpec& spec,
                                                      std::uint64_t batch_size,
                                                      std::uint64_t num_buffers,
                                                      std::uint64_t page_bytes) {
    RONDO_ASSERT(std::has_single_bit(page_bytes) && page_bytes >= cache_line,
                 "page_bytes is a power of two, at least 64");
    if (batch_size == 0) return tl::unexpected{zero("batch_size")};
    if (num_buffers == 0) return tl::unexpected{zero("num_buffers")};

    RingLayout layout;
    layout.batch_size_ = batch_size;
    layout.num_buffers_ = num_buffers;
    layout.payload_bytes_ = spec.payload_bytes();
    layout.arrays_.reserve(spec.size());
    for (std::size_t i = 0; i < spec.size(); ++i) {
        auto array = lay_out(spec.array_bytes(i), batch_size, num_buffers, page_bytes);
        if (!array) return tl::unexpected{overflow()};
        array->payload_offset = spec.array_offset(i);
        const auto total = checked_add(layout.total_bytes_, array->region_bytes);
        if (!total) return tl::unexpected{overflow()};
        layout.total_bytes_ = *total;
        layout.arrays_.push_back(*array);
    }
    return layout;
}

}  // namespace rondo::detail
