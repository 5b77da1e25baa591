// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ring/ring.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::detail {

// Copies from a caller's memory into slots that the caller has reserved. Sizes have been checked at
// the entrance; nothing here allocates or fails. Source and ring do not overlap.

/// Scatters `count` whole payloads, concatenated at `payloads`, to the slots from `first_slot` on.
/// Precondition: first_slot + count <= batch_size.
void copy_payload_in(Ring& ring, std::uint64_t buffer, std::uint64_t first_slot,
                     std::uint64_t count, const std::byte* payloads) noexcept;

/// Copies rows `first_row` to `first_row + count` of stacked arrays, each `[n, *shape]`.
/// Precondition: first_slot + count <= batch_size; one span per array, with all of these rows.
void copy_stacked_in(Ring& ring, std::uint64_t buffer, std::uint64_t first_slot,
                     std::uint64_t count, std::uint64_t first_row,
                     std::span<const std::span<const std::byte>> arrays) noexcept;

}  // namespace rondo::detail
