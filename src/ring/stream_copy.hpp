// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::detail {

/// From this size on a copy can be worth streaming: below it the setting up costs more.
inline constexpr std::uint64_t stream_bytes = std::uint64_t{64} << 10;

/// The size of the last-level cache, or 32 MiB where the system does not say. A ring larger than
/// this is read from memory in any case.
[[nodiscard]] std::uint64_t last_level_cache_bytes() noexcept;

/// As memcpy, past the caches: a plain store first fetches the line that it is about to overwrite,
/// and drives out what somebody still needs. The bytes are visible to whoever synchronises with the
/// caller afterwards, as with memcpy. Where the processor has no such stores, and under a
/// sanitizer, which cannot see them, it is memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace rondo::detail
