// SPDX-License-Identifier: Apache-2.0
#include "wire/framing.hpp"
#include <rondo/detail/assert.hpp>
#include <rondo/spec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Input: payload size - 1, arrays - 1, samples sent, longest piece - 1 (a byte each), then a stream
// that is taken for payloads and then for acks.

namespace {

using namespace rondo;
using namespace rondo::wire;
using Bytes = std::span<const std::byte>;

SampleSpec spec_of(std::size_t payload, std::size_t arrays) {
    std::vector<ArraySpec> specs;
    for (std::size_t i = 0; i < arrays; ++i) {
        specs.push_back({std::to_string(i), dtype::uint8, {i == 0 ? payload : 0}});
    }
    return SampleSpec::create(std::move(specs)).value();
}

/// Calls `take` with pieces of 1, 2, ... `longest` bytes, and again from 1.
template <typename Take>
void in_pieces(Bytes stream, std::size_t longest, Take take) {
    for (std::size_t length = 1; !stream.empty(); length = length % longest + 1) {
        const Bytes piece = stream.first(std::min(length, stream.size()));
        take(piece);
        stream = stream.subspan(piece.size());
    }
}

void check_split(const PayloadFramer& framer, std::size_t payload, Bytes stream,
                 std::size_t longest) {
    const auto whole = framer.split(stream);
    RONDO_ASSERT(whole.samples == stream.size() / payload, "as many samples as fit");

    std::vector<std::byte> tail;
    std::vector<std::byte> committed;
    std::uint64_t samples = 0;
    in_pieces(stream, longest, [&](Bytes piece) {
        tail.insert(tail.end(), piece.begin(), piece.end());
        const auto split = framer.split(tail);
        RONDO_ASSERT(split.whole.size() == split.samples * payload, "whole samples only");
        samples += split.samples;
        committed.insert(committed.end(), split.whole.begin(), split.whole.end());
        tail.assign(split.rest.begin(), split.rest.end());
        RONDO_ASSERT(framer.missing(tail.size()) == payload - tail.size(), "the rest is missing");
    });
    RONDO_ASSERT(samples == whole.samples, "same samples for every split");
    RONDO_ASSERT(std::ranges::equal(committed, whole.whole), "same bytes for every split");
    RONDO_ASSERT(std::ranges::equal(tail, whole.rest), "same tail for every split");
}

void check_scatter(const PayloadFramer& framer, std::size_t payload, Bytes stream,
                   std::size_t longest) {
    std::uint64_t available = 0;
    std::uint64_t held = 0;
    std::uint64_t samples = 0;
    in_pieces(stream, longest, [&](Bytes piece) {
        available += piece.size();
        while (const std::uint64_t complete = framer.scatter(held, available)) {
            const std::uint64_t bytes = framer.missing(held) + (complete - 1) * payload;
            RONDO_ASSERT(bytes <= available, "a scatter asks for no more than there is");
            available -= bytes;
            held = 0;
            samples += complete;
        }
        if (piece.size() % 2 == 1) held += std::exchange(available, 0);  // to the side buffer
    });
    RONDO_ASSERT(samples == stream.size() / payload, "scattering agrees with splitting");
    RONDO_ASSERT(held + available == stream.size() % payload, "and so does what is left");
}

void check_acks(std::uint64_t sent, Bytes stream, std::size_t longest) {
    AckReader whole;
    whole.sent(sent);
    const auto acks = whole.feed(stream);
    RONDO_ASSERT(acks.samples <= sent, "no more acks than samples");
    RONDO_ASSERT(acks.samples + whole.in_flight() == sent, "acknowledged or in flight");
    RONDO_ASSERT(acks.error || acks.samples == stream.size(), "all bytes count, or one is bad");

    AckReader pieces;
    pieces.sent(sent);
    std::optional<WireError> error;
    std::uint64_t samples = 0;
    in_pieces(stream, longest, [&](Bytes piece) {
        const auto some = pieces.feed(piece);
        samples += some.samples;
        error = some.error;
    });
    RONDO_ASSERT(samples == acks.samples, "same acks for every split");
    RONDO_ASSERT(error == acks.error, "same error for every split");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4) return 0;
    const std::size_t payload = std::size_t{data[0]} + 1;
    const std::size_t arrays = std::size_t{data[1]} + 1;
    const std::size_t longest = std::size_t{data[3]} + 1;
    const Bytes stream = std::as_bytes(std::span{data, size}.subspan(4));

    const PayloadFramer framer{spec_of(payload, arrays)};
    check_split(framer, payload, stream, longest);
    check_scatter(framer, payload, stream, longest);
    check_acks(data[2], stream, longest);
    return 0;
}
