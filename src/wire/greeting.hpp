// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wire/error.hpp"
#include "wire/protocol.hpp"
#include <rondo/spec.hpp>

#include <tl/expected.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rondo::wire {

/// What a greeting may announce. Checked on both sides, so a greeting that encodes also parses;
/// a hostile server can make a client hold at most `max_arrays * max_dims` dimensions, and only by
/// sending each of them.
inline constexpr std::uint32_t max_arrays = 65'536;
inline constexpr std::uint32_t max_dims = 64;  // numpy's own limit

/// One array as echo/1 announces it: neither a path nor a dtype.
struct EchoArray {
    std::uint32_t item_size = 0;  ///< bytes
    std::vector<std::uint32_t> dims;

    friend auto operator<=>(const EchoArray&, const EchoArray&) = default;
};

/// What a server of echo/1 says when a connection opens.
struct EchoGreeting {
    std::vector<EchoArray> arrays;

    friend bool operator==(const EchoGreeting&, const EchoGreeting&) = default;
};

/// The server's arrays are not the client's; `message` shows both sides.
struct SpecMismatch {
    std::string what;

    [[nodiscard]] const std::string& message() const noexcept { return what; }
};

/// Whether echo/1 can carry samples of this spec. Both peers ask before they use the protocol: the
/// server in `encode_greeting`, the client beside `check_greeting`.
/// Errors: `zero_payload`; `out_of_range` for a dimension beyond 32 bits, or beyond `max_arrays` or
/// `max_dims`.
[[nodiscard]] tl::expected<void, WireError> check_speakable(const SampleSpec& spec);

/// The greeting of an echo/1 server. Errors: as `check_speakable`.
[[nodiscard]] tl::expected<std::vector<std::byte>, WireError> encode_greeting(
    const SampleSpec& spec);

/// Whether the server's arrays have the item sizes and shapes of the client's, in the same order.
/// That is all echo/1 can tell: int32 passes for float32.
[[nodiscard]] tl::expected<void, SpecMismatch> check_greeting(const EchoGreeting& server,
                                                              const SampleSpec& client);

/// Reads a server's greeting from a stream that may be cut anywhere; does no I/O.
///
/// Once done or failed it consumes nothing more: the bytes behind the greeting are the caller's.
/// Thread-safety: none, one connection uses it.
class GreetingParser {
public:
    enum class State : std::uint8_t { need_more, done, failed };

    struct Progress {
        std::size_t consumed;  ///< of the bytes fed in this call
        State state;
    };

    Progress feed(std::span<const std::byte> bytes);

    [[nodiscard]] State state() const noexcept { return state_; }

    /// What the server speaks; nothing until the magic is read.
    [[nodiscard]] std::optional<Protocol> protocol() const noexcept { return protocol_; }

    /// Precondition: state() == State::done.
    [[nodiscard]] const EchoGreeting& greeting() const noexcept;

    /// Precondition: state() == State::failed.
    [[nodiscard]] const WireError& error() const noexcept;

    /// The error of a stream that ends here. Precondition: state() == State::need_more.
    [[nodiscard]] WireError truncation() const;

private:
    enum class Field : std::uint8_t { magic, version, count, item_size, ndim, dim };

    [[nodiscard]] std::size_t width() const noexcept;
    [[nodiscard]] std::uint32_t number() const noexcept;
    void take_field();
    void take_magic();
    void take_count(std::uint32_t count);
    void take_ndim(std::uint32_t ndim);
    void next_dim_or_array() noexcept;
    void fail(WireError::Code code, std::string what);

    EchoGreeting greeting_;
    std::optional<WireError> error_;
    std::optional<Protocol> protocol_;
    std::size_t received_ = 0;
    std::size_t filled_ = 0;  // bytes of field_
    std::uint32_t count_ = 0;
    std::uint32_t dims_left_ = 0;  // of the last array
    std::array<std::byte, 4> field_{};
    Field next_ = Field::magic;
    State state_ = State::need_more;
};

}  // namespace rondo::wire
