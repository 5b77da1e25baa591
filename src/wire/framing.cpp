// SPDX-License-Identifier: Apache-2.0
#include "wire/framing.hpp"

#include <rondo/detail/assert.hpp>

#include <algorithm>
#include <array>
#include <climits>
#include <string>

namespace rondo::wire {
namespace {

constexpr auto ack_block = [] {
    std::array<std::byte, max_ack_bytes> block{};
    block.fill(ack);
    return block;
}();

std::string hex_byte(std::byte byte) {
    constexpr const char* digits = "0123456789abcdef";
    const auto value = std::to_integer<unsigned>(byte);
    return {'0', 'x', digits[value >> 4U], digits[value & 0xfU]};
}

}  // namespace

std::span<const std::byte> ack_bytes(std::size_t samples) noexcept {
    return std::span{ack_block}.first(std::min(samples, max_ack_bytes));
}

PayloadFramer::PayloadFramer(const SampleSpec& spec) noexcept
    : payload_{spec.payload_bytes()}, max_scatter_{IOV_MAX / spec.size()} {
    RONDO_ASSERT(payload_ > 0, "echo/1 carries no samples of 0 bytes");
}

PayloadFramer::Split PayloadFramer::split(std::span<const std::byte> tail_and_data) const noexcept {
    const std::size_t rest = tail_and_data.size() % payload_;
    const std::size_t whole = tail_and_data.size() - rest;
    return {whole / payload_, tail_and_data.first(whole), tail_and_data.last(rest)};
}

std::uint64_t PayloadFramer::missing(std::uint64_t held) const noexcept {
    RONDO_ASSERT(held < payload_, "take a whole sample before asking for the next");
    return payload_ - held;
}

std::uint64_t PayloadFramer::scatter(std::uint64_t held, std::uint64_t available) const noexcept {
    RONDO_ASSERT(can_scatter(), "a sample has more arrays than a readv takes: split it");
    const std::uint64_t first = missing(held);
    if (available < first) return 0;
    // Not (held + available) / payload_, which could wrap.
    return std::min(1 + (available - first) / payload_, max_scatter_);
}

AckReader::Acks AckReader::feed(std::span<const std::byte> bytes) {
    if (error_) return {0, error_};

    const std::uint64_t room = in_flight();
    const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b != ack; });
    const auto leading = static_cast<std::uint64_t>(bad - bytes.begin());
    const std::uint64_t samples = std::min(leading, room);
    acked_ += samples;
    if (leading > room) {
        error_ = WireError{WireError::Code::excess_acks,
                           "the server acknowledged sample number " + std::to_string(sent_ + 1) +
                               ", but only " + std::to_string(sent_) + " were sent"};
    } else if (bad != bytes.end()) {
        error_ =
            WireError{WireError::Code::bad_ack,
                      "the server sent " + hex_byte(*bad) +
                          " where an ack (0x01) was expected, after " + std::to_string(acked_) +
                          " acks, with " + std::to_string(in_flight()) + " samples in flight"};
    }
    return {samples, error_};
}

}  // namespace rondo::wire
