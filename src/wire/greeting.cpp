// SPDX-License-Identifier: Apache-2.0
#include "wire/greeting.hpp"

#include "spec/text.hpp"
#include <rondo/detail/assert.hpp>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace rondo::wire {
namespace {

constexpr std::uint8_t echo_version = 1;
constexpr std::uint64_t max_u32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t max_lines = 20;  // of a mismatch, as in rondo::difference

void append_u32(std::vector<std::byte>& out, std::uint32_t value) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
        out.push_back(static_cast<std::byte>((value >> shift) & 0xffU));
    }
}

void append_magic(std::vector<std::byte>& out, Protocol protocol) {
    for (const char c : magic(protocol)) out.push_back(static_cast<std::byte>(c));
}

/// A peer's bytes made fit for a message.
std::string quoted_bytes(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) text += std::to_integer<char>(byte);
    return in_quotes(text);
}

tl::unexpected<WireError> out_of_range(std::string what) {
    return tl::unexpected{WireError{WireError::Code::out_of_range, std::move(what)}};
}

template <typename Dims>
std::string shape_text(const Dims& dims) {
    std::string text = "[";
    for (const auto dim : dims) {
        if (text.size() > 1) text += ',';
        text += std::to_string(dim);
    }
    return text + ']';
}

std::string items_text(std::uint32_t item_size) {
    return " of " + std::to_string(item_size) + "-byte items";
}

bool same(const EchoArray& server, const ArraySpec& client) {
    return server.item_size == client.type.item_size() &&
           std::ranges::equal(server.dims, client.shape);
}

/// Whether the two differ only in order, which needs a different remedy than a wrong shape.
bool is_permutation(std::vector<EchoArray> server, std::span<const ArraySpec> client) {
    if (server.size() != client.size()) return false;
    std::vector<EchoArray> sorted;
    for (const ArraySpec& array : client) {
        EchoArray announced{array.type.item_size(), {}};
        for (const std::uint64_t dim : array.shape) {
            if (dim > max_u32) return false;
            announced.dims.push_back(static_cast<std::uint32_t>(dim));
        }
        sorted.push_back(std::move(announced));
    }
    std::ranges::sort(server);
    std::ranges::sort(sorted);
    return server == sorted;
}

std::string mismatch_line(std::size_t index, const EchoArray* server, const ArraySpec* client) {
    std::string line = "\n  array " + std::to_string(index) + ": server ";
    line += server ? shape_text(server->dims) + items_text(server->item_size) : "has none";
    line += ", client ";
    line += client ? described(*client) + items_text(client->type.item_size()) : "has none";
    return line;
}

}  // namespace

tl::expected<void, WireError> check_speakable(const SampleSpec& spec) {
    if (spec.payload_bytes() == 0) {
        return tl::unexpected{
            WireError{WireError::Code::zero_payload,
                      "echo/1 cannot carry a sample of 0 bytes: every array has a dimension of 0"}};
    }
    if (spec.size() > max_arrays) {
        return out_of_range("echo/1 carries at most " + std::to_string(max_arrays) +
                            " arrays, but the spec has " + std::to_string(spec.size()));
    }
    for (const ArraySpec& array : spec.arrays()) {
        if (array.shape.size() > max_dims) {
            return out_of_range("echo/1 carries at most " + std::to_string(max_dims) +
                                " dimensions, but " + in_quotes(array.path) + " has " +
                                std::to_string(array.shape.size()) + ": reshape it");
        }
        for (const std::uint64_t dim : array.shape) {
            if (dim > max_u32) {
                return out_of_range("echo/1 carries dimensions of 32 bits, but " +
                                    described(array) + " has one of " + std::to_string(dim) +
                                    ": reshape it");
            }
        }
    }
    return {};
}

tl::expected<std::vector<std::byte>, WireError> encode_greeting(const SampleSpec& spec) {
    if (auto speakable = check_speakable(spec); !speakable) {
        return tl::unexpected{std::move(speakable).error()};
    }
    std::vector<std::byte> out;
    append_magic(out, Protocol::echo1);
    out.push_back(std::byte{echo_version});
    append_u32(out, static_cast<std::uint32_t>(spec.size()));
    for (const ArraySpec& array : spec.arrays()) {
        append_u32(out, array.type.item_size());
        append_u32(out, static_cast<std::uint32_t>(array.shape.size()));
        for (const std::uint64_t dim : array.shape) {
            append_u32(out, static_cast<std::uint32_t>(dim));
        }
    }
    return out;
}

tl::expected<void, SpecMismatch> check_greeting(const EchoGreeting& server,
                                                const SampleSpec& client) {
    const auto ours = client.arrays();
    const std::size_t total = std::max(server.arrays.size(), ours.size());
    std::size_t differing = 0;
    std::string lines;
    for (std::size_t i = 0; i < total; ++i) {
        const EchoArray* theirs = i < server.arrays.size() ? &server.arrays[i] : nullptr;
        const ArraySpec* own = i < ours.size() ? &ours[i] : nullptr;
        if (theirs && own && same(*theirs, *own)) continue;
        if (++differing <= max_lines) lines += mismatch_line(i, theirs, own);
    }
    if (differing == 0) return {};

    if (differing > max_lines) {
        lines += "\n  and " + std::to_string(differing - max_lines) + " more";
    }
    std::string what = "Server spec mismatch: " + std::to_string(differing) + " of " +
                       std::to_string(total) + (total == 1 ? " array" : " arrays") +
                       (differing == 1 ? " differs" : " differ") + " in item size or shape";
    if (is_permutation(server.arrays, ours)) {
        what +=
            "; both sides have the same ones in another order (Python orders dict keys "
            "alphabetically)";
    }
    return tl::unexpected{SpecMismatch{what + ':' + lines}};
}

GreetingParser::Progress GreetingParser::feed(std::span<const std::byte> bytes) {
    std::size_t consumed = 0;
    while (state_ == State::need_more && consumed < bytes.size()) {
        field_[filled_++] = bytes[consumed++];
        if (filled_ < width()) continue;
        filled_ = 0;
        take_field();
    }
    received_ += consumed;
    return {consumed, state_};
}

const EchoGreeting& GreetingParser::greeting() const noexcept {
    RONDO_ASSERT(state_ == State::done, "ask for a greeting once it is done");
    return greeting_;
}

const WireError& GreetingParser::error() const noexcept {
    RONDO_ASSERT(state_ == State::failed, "ask for an error once there is one");
    return *error_;
}

WireError GreetingParser::truncation() const {
    RONDO_ASSERT(state_ == State::need_more, "a greeting that ended cannot be truncated");
    std::string what = "the server closed the connection ";
    if (received_ == 0) {
        what += "before it sent its greeting";
    } else {
        what += "in the middle of its greeting, after " + std::to_string(received_) +
                (received_ == 1 ? " byte" : " bytes");
    }
    if (next_ == Field::magic && filled_ > 0) {
        what += ": " + quoted_bytes(std::span{field_}.first(filled_));
    }
    return {WireError::Code::truncated, std::move(what)};
}

std::size_t GreetingParser::width() const noexcept {
    return next_ == Field::version ? 1 : field_.size();
}

std::uint32_t GreetingParser::number() const noexcept {
    std::uint32_t value = 0;
    for (std::size_t i = field_.size(); i-- > 0;) {
        value = value << 8U | std::to_integer<std::uint32_t>(field_[i]);
    }
    return value;
}

void GreetingParser::take_field() {
    switch (next_) {
        case Field::magic:
            return take_magic();
        case Field::version: {
            const auto version = std::to_integer<unsigned>(field_[0]);
            if (version != echo_version) {
                return fail(WireError::Code::unknown_protocol,
                            "unsupported echo wire version " + std::to_string(version) +
                                " (this client supports " + std::to_string(echo_version) + ")");
            }
            next_ = Field::count;
            return;
        }
        case Field::count:
            return take_count(number());
        case Field::item_size:
            greeting_.arrays.push_back({number(), {}});
            next_ = Field::ndim;
            return;
        case Field::ndim:
            return take_ndim(number());
        case Field::dim:
            greeting_.arrays.back().dims.push_back(number());
            --dims_left_;
            return next_dim_or_array();
    }
}

void GreetingParser::take_magic() {
    const auto is = [this](std::string_view magic) {
        return std::ranges::equal(field_, magic, {}, {},
                                  [](char c) { return static_cast<std::byte>(c); });
    };
    if (is(magic(Protocol::echo1))) {
        protocol_ = Protocol::echo1;
        next_ = Field::version;
    } else if (is(rondo_magic)) {
        fail(WireError::Code::unknown_protocol,
             "the server speaks rondo/1, which this client does not know yet");
    } else {
        fail(WireError::Code::bad_magic, "unexpected handshake magic " + quoted_bytes(field_) +
                                             " (expected \"ECHO\"): is the peer a rondo or an "
                                             "echo server?");
    }
}

void GreetingParser::take_count(std::uint32_t count) {
    if (count > max_arrays) {
        return fail(WireError::Code::limit_exceeded,
                    "the server announces " + std::to_string(count) + " arrays, and " +
                        std::to_string(max_arrays) + " is the limit");
    }
    count_ = count;  // no reserve: memory follows the bytes that came, not the number announced
    next_dim_or_array();
}

void GreetingParser::take_ndim(std::uint32_t ndim) {
    if (ndim > max_dims) {
        return fail(WireError::Code::limit_exceeded,
                    "the server announces " + std::to_string(ndim) + " dimensions for array " +
                        std::to_string(greeting_.arrays.size() - 1) + ", and " +
                        std::to_string(max_dims) + " is the limit");
    }
    dims_left_ = ndim;
    next_dim_or_array();
}

void GreetingParser::next_dim_or_array() noexcept {
    if (dims_left_ > 0) {
        next_ = Field::dim;
    } else if (greeting_.arrays.size() < count_) {
        next_ = Field::item_size;
    } else {
        state_ = State::done;
    }
}

void GreetingParser::fail(WireError::Code code, std::string what) {
    error_ = WireError{code, std::move(what)};
    state_ = State::failed;
}

}  // namespace rondo::wire
