// SPDX-License-Identifier: Apache-2.0
#include "wire/greeting.hpp"
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

namespace {

using namespace rondo;
using namespace rondo::wire;
using State = GreetingParser::State;
using Bytes = std::span<const std::byte>;

struct Outcome {
    GreetingParser parser;
    std::size_t consumed = 0;
};

/// The pieces are 1, 2, ... `longest` bytes long, and again from 1.
Outcome parse(Bytes stream, std::size_t longest) {
    Outcome outcome;
    for (std::size_t length = 1; !stream.empty(); length = length % longest + 1) {
        const Bytes piece = stream.first(std::min(length, stream.size()));
        const auto progress = outcome.parser.feed(piece);
        outcome.consumed += progress.consumed;
        RONDO_ASSERT(progress.state == outcome.parser.state(), "progress tells the state");
        if (progress.state != State::need_more) break;
        RONDO_ASSERT(progress.consumed == piece.size(), "who needs more has taken everything");
        stream = stream.subspan(piece.size());
    }
    return outcome;
}

Outcome parse_whole(Bytes stream) {
    Outcome outcome;
    outcome.consumed = outcome.parser.feed(stream).consumed;
    return outcome;
}

void check_same(const Outcome& a, const Outcome& b) {
    RONDO_ASSERT(a.parser.state() == b.parser.state(), "same state for every split");
    RONDO_ASSERT(a.consumed == b.consumed, "same length for every split");
    RONDO_ASSERT(a.parser.protocol() == b.parser.protocol(), "same protocol for every split");
    switch (a.parser.state()) {
        case State::done:
            RONDO_ASSERT(a.parser.greeting() == b.parser.greeting(), "same greeting");
            break;
        case State::failed:
            RONDO_ASSERT(a.parser.error() == b.parser.error(), "same error");
            RONDO_ASSERT(!a.parser.error().message().empty(), "an error says something");
            break;
        case State::need_more:
            RONDO_ASSERT(a.parser.truncation() == b.parser.truncation(), "same truncation");
            break;
    }
}

/// A client's spec that fits the greeting, unless no spec can.
std::optional<SampleSpec> spec_for(const EchoGreeting& greeting) {
    std::vector<ArraySpec> arrays;
    for (const EchoArray& array : greeting.arrays) {
        if (array.item_size == 0) return std::nullopt;
        arrays.push_back({std::to_string(arrays.size()),
                          dtype::opaque(array.item_size),
                          {array.dims.begin(), array.dims.end()}});
    }
    auto spec = SampleSpec::create(std::move(arrays));
    if (!spec) return std::nullopt;
    return *std::move(spec);
}

void check_round_trip(const EchoGreeting& greeting, Bytes bytes) {
    const SampleSpec other = SampleSpec::parse("a:uint8[3],b:float64[2,2]").value();
    if (const auto checked = check_greeting(greeting, other); !checked) {
        RONDO_ASSERT(!checked.error().message().empty(), "a mismatch says something");
    }
    const auto spec = spec_for(greeting);
    if (!spec) return;
    RONDO_ASSERT(check_greeting(greeting, *spec), "a spec made from a greeting fits it");
    const auto encoded = encode_greeting(*spec);
    RONDO_ASSERT(encoded.has_value() == (spec->payload_bytes() > 0),
                 "what was read can be written, unless it is of 0 bytes");
    RONDO_ASSERT(!encoded || std::ranges::equal(*encoded, bytes), "the bytes come back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes stream = std::as_bytes(std::span{data, size});
    const Outcome whole = parse_whole(stream);
    check_same(whole, parse(stream, 1));
    check_same(whole, parse(stream, 7));
    if (whole.parser.state() == State::done) {
        check_round_trip(whole.parser.greeting(), stream.first(whole.consumed));
    }
    return 0;
}
