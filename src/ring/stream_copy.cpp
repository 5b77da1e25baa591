// SPDX-License-Identifier: Apache-2.0
#include "ring/stream_copy.hpp"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RONDO_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RONDO_SANITIZED
#endif

#if defined(__SSE2__) && !defined(RONDO_SANITIZED)
#define RONDO_STREAMS
#include <emmintrin.h>
#endif

namespace rondo::detail {

std::uint64_t last_level_cache_bytes() noexcept {
    static const std::uint64_t bytes = [] {
        const long said = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
        return said > 0 ? static_cast<std::uint64_t>(said) : std::uint64_t{32} << 20;
    }();
    return bytes;
}

#ifdef RONDO_STREAMS

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t line = 64;
    // Streaming stores want an aligned address, and are only worth it for whole lines.
    const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % line;
    const std::size_t head = std::min(bytes, (line - misaligned) % line);
    std::memcpy(to, from, head);
    to += head;
    from += head;
    bytes -= head;
    for (; bytes >= line; bytes -= line, to += line, from += line) {
        const auto* const source = reinterpret_cast<const __m128i*>(from);
        auto* const target = reinterpret_cast<__m128i*>(to);
        const __m128i a = _mm_loadu_si128(source);
        const __m128i b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2);
        const __m128i d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    std::memcpy(to, from, bytes);
    // Streaming stores are not ordered by a later release: without the fence a consumer could see
    // the commit, and not yet the sample.
    _mm_sfence();
}

#else

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
}

#endif

}  // namespace rondo::detail
