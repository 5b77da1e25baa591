// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/pin_error.hpp>
#include <rondo/spec.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rondo::detail {

/// Bytes of a page of this machine.
[[nodiscard]] std::uint64_t page_size() noexcept;

/// How one array lies in its region: buffer `b` at `b * stride`, its samples back to back.
/// An array of 0 bytes has an empty region, and every number but `payload_offset` is 0.
struct ArrayLayout {
    std::uint64_t item_bytes = 0;      ///< of one sample
    std::uint64_t batch_bytes = 0;     ///< of one buffer's samples
    std::uint64_t stride = 0;          ///< from one buffer's start to the next
    std::uint64_t region_bytes = 0;    ///< of the whole mapping: a multiple of the page
    std::uint64_t payload_offset = 0;  ///< where the array begins in a sample's payload
};

/// Where every byte of a ring lies, worked out before any memory is touched.
///
/// Pure numbers, all checked for overflow. Each buffer starts on a cache line, or on a page when a
/// batch of that array has 64 KiB or more. A value; thread-safety as for a value.
class RingLayout {
public:
    /// `page_bytes` is a power of two, at least 64.
    /// Errors: `InvalidOptions` when `batch_size` or `num_buffers` is 0; `RingMemory` that can
    /// never fit when a size exceeds 64 bits.
    [[nodiscard]] static tl::expected<RingLayout, PinError> create(
        const SampleSpec& spec, std::uint64_t batch_size, std::uint64_t num_buffers,
        std::uint64_t page_bytes = page_size());

    [[nodiscard]] std::uint64_t batch_size() const noexcept { return batch_size_; }
    [[nodiscard]] std::uint64_t num_buffers() const noexcept { return num_buffers_; }

    /// Bytes of one sample, over all arrays.
    [[nodiscard]] std::uint64_t payload_bytes() const noexcept { return payload_bytes_; }

    /// Bytes of all regions.
    [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_bytes_; }

    /// One per array, in spec order.
    [[nodiscard]] std::span<const ArrayLayout> arrays() const noexcept { return arrays_; }

private:
    RingLayout() = default;

    std::vector<ArrayLayout> arrays_;
    std::uint64_t batch_size_ = 0;
    std::uint64_t num_buffers_ = 0;
    std::uint64_t payload_bytes_ = 0;
    std::uint64_t total_bytes_ = 0;
};

}  // namespace rondo::detail
