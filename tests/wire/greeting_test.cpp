// SPDX-License-Identifier: Apache-2.0
#include "wire/greeting.hpp"

#include "support/catch.hpp"
#include <rondo/spec.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace rondo;
using namespace rondo::wire;

namespace {

using Bytes = std::vector<std::byte>;
using State = GreetingParser::State;
using Code = WireError::Code;

constexpr std::uint32_t max_u32 = std::numeric_limits<std::uint32_t>::max();

// Greetings of an id-echo 0.2.1 server on loopback, read with a plain socket.
//
// echo.Server({"obs": np.zeros(4, np.float32), "reward": np.zeros((), np.float32)}, ...)
constexpr std::string_view id_echo_example =
    "45 43 48 4f 01 02 00 00 00 04 00 00 00 01 00 00 00 04 00 00 00 04 00 00 00 00 00 00 00";
// echo.Server({"a": np.zeros((2, 3, 300), np.uint8), "b": np.zeros((0,), np.float64),
//              "c": np.zeros((1,), np.complex128), "d": np.zeros((), bool)}, ...)
constexpr std::string_view id_echo_mixed =
    "45 43 48 4f 01 04 00 00 00 01 00 00 00 03 00 00 00 02 00 00 00 03 00 00 00 2c 01 00 00 "
    "08 00 00 00 01 00 00 00 00 00 00 00 10 00 00 00 01 00 00 00 01 00 00 00 01 00 00 00 00 00 "
    "00 00";

Bytes from_hex(std::string_view hex) {
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 3) {
        bytes.push_back(
            static_cast<std::byte>(std::stoul(std::string{hex.substr(i, 2)}, nullptr, 16)));
    }
    return bytes;
}

Bytes from_text(std::string_view text) {
    Bytes bytes;
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
    return bytes;
}

SampleSpec spec_of(std::vector<ArraySpec> arrays) {
    SpecLimits limits;
    limits.max_payload_bytes = std::numeric_limits<std::uint64_t>::max();
    limits.max_arrays = std::numeric_limits<std::size_t>::max();
    return SampleSpec::create(std::move(arrays), limits).value();
}

SampleSpec spec_of(std::string_view text) {
    return SampleSpec::parse(text).value();
}

/// `ECHO`, 1, then the numbers as u32.
Bytes greeting_of(std::initializer_list<std::uint32_t> numbers) {
    Bytes bytes = from_text("ECHO\x01");
    for (const std::uint32_t number : numbers) {
        for (unsigned shift = 0; shift < 32; shift += 8) {
            bytes.push_back(static_cast<std::byte>((number >> shift) & 0xffU));
        }
    }
    return bytes;
}

WireError error_of(std::span<const std::byte> bytes) {
    GreetingParser parser;
    REQUIRE(parser.feed(bytes).state == State::failed);
    return parser.error();
}

/// The same greeting whatever the pieces: `next_size` says how long the next one is.
template <typename NextSize>
std::size_t feed_in_pieces(GreetingParser& parser, std::span<const std::byte> bytes,
                           NextSize next_size) {
    std::size_t consumed = 0;
    while (!bytes.empty()) {
        const auto piece = bytes.first(std::min<std::size_t>(next_size(), bytes.size()));
        const auto progress = parser.feed(piece);
        consumed += progress.consumed;
        if (progress.state != State::need_more) break;
        REQUIRE(progress.consumed == piece.size());
        bytes = bytes.subspan(piece.size());
    }
    return consumed;
}

/// Catch2 2 and 3 name their matcher differently.
bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

SampleSpec random_spec(std::mt19937& random) {
    static const std::array types{dtype::uint8,   dtype::float16,    dtype::float32,
                                  dtype::float64, dtype::complex128, dtype::opaque(1'000'003)};
    const auto below = [&random](std::size_t n) { return random() % n; };
    std::vector<ArraySpec> arrays;
    for (std::size_t i = 0, count = 1 + below(6); i < count; ++i) {
        std::vector<std::uint64_t> shape(below(6));
        for (auto& dim : shape) dim = 1 + below(300);
        arrays.push_back({std::to_string(i), types[below(types.size())], std::move(shape)});
    }
    return spec_of(std::move(arrays));
}

SpecMismatch mismatch_of(std::string_view server, std::string_view client) {
    GreetingParser parser;
    parser.feed(encode_greeting(spec_of(server)).value());
    const auto checked = check_greeting(parser.greeting(), spec_of(client));
    REQUIRE_FALSE(checked);
    return checked.error();
}

}  // namespace

TEST_CASE("Greeting: bytes are those of an id-echo server", "[wire][greeting]") {
    CHECK(encode_greeting(spec_of("obs:float32[4],reward:float32[]")).value() ==
          from_hex(id_echo_example));
    CHECK(encode_greeting(spec_of("a:uint8[2,3,300],b:float64[0],c:complex128[1],d:bool[]"))
              .value() == from_hex(id_echo_mixed));
}

TEST_CASE("Greeting: the example of docs/echo-1-on-the-wire.md is what we send and read",
          "[wire][greeting]") {
    Bytes expected;
    for (const std::string_view line : {
             "45 43 48 4f",  // magic
             "01",           // version
             "02 00 00 00",  // arrays
             "04 00 00 00",  // obs: item size
             "01 00 00 00",  // obs: dimensions
             "04 00 00 00",  // obs: dimension 0
             "04 00 00 00",  // reward: item size
             "00 00 00 00",  // reward: dimensions
         }) {
        const Bytes bytes = from_hex(line);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    const auto spec = spec_of("obs:float32[4],reward:float32[]");
    CHECK(expected.size() == 29);
    CHECK(encode_greeting(spec).value() == expected);

    GreetingParser parser;
    const auto progress = parser.feed(expected);
    REQUIRE(progress.state == State::done);
    CHECK(progress.consumed == 29);
    CHECK(parser.protocol() == Protocol::echo1);
    CHECK(parser.greeting() == EchoGreeting{{{4, {4}}, {4, {}}}});
    CHECK(check_greeting(parser.greeting(), spec));
    CHECK(spec.payload_bytes() == 20);
}

TEST_CASE("Greeting: an id-echo server's is read", "[wire][greeting]") {
    GreetingParser parser;
    REQUIRE(parser.feed(from_hex(id_echo_mixed)).state == State::done);
    CHECK(parser.greeting() == EchoGreeting{{{1, {2, 3, 300}}, {8, {0}}, {16, {1}}, {1, {}}}});
}

TEST_CASE("Greeting: any split of the stream parses the same", "[wire][greeting]") {
    std::mt19937 random{20240607};
    for (int round = 0; round < 300; ++round) {
        const SampleSpec spec = random_spec(random);
        Bytes bytes = encode_greeting(spec).value();
        const std::size_t length = bytes.size();
        bytes.resize(length + random() % 5, std::byte{1});  // whatever follows is not ours

        GreetingParser whole;
        REQUIRE(whole.feed(bytes).consumed == length);
        REQUIRE(whole.state() == State::done);
        REQUIRE(check_greeting(whole.greeting(), spec));
        REQUIRE(whole.feed(bytes).consumed == 0);

        GreetingParser one_by_one;
        REQUIRE(feed_in_pieces(one_by_one, bytes, [] { return 1U; }) == length);
        REQUIRE(one_by_one.state() == State::done);
        REQUIRE(one_by_one.greeting() == whole.greeting());

        GreetingParser pieces;  // of 0 to 11 bytes
        REQUIRE(feed_in_pieces(pieces, bytes, [&random] { return random() % 12; }) == length);
        REQUIRE(pieces.state() == State::done);
        REQUIRE(pieces.greeting() == whole.greeting());
    }
}

TEST_CASE("Greeting: a stream that ends early is truncated at every length", "[wire][greeting]") {
    const Bytes bytes = from_hex(id_echo_mixed);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        GreetingParser parser;
        const auto progress = parser.feed(std::span{bytes}.first(length));
        REQUIRE(progress.state == State::need_more);
        REQUIRE(progress.consumed == length);
        REQUIRE(parser.truncation().code == Code::truncated);

        REQUIRE(parser.feed(std::span{bytes}.subspan(length)).state == State::done);
    }
    GreetingParser parser;
    CHECK(parser.truncation().message() ==
          "the server closed the connection before it sent its greeting");
    parser.feed(from_text("EC"));
    CHECK(parser.truncation().message() ==
          "the server closed the connection in the middle of its greeting, after 2 bytes: \"EC\"");
    parser.feed(from_text("HO"));
    CHECK(parser.truncation().message() ==
          "the server closed the connection in the middle of its greeting, after 4 bytes");
}

TEST_CASE("Greeting: a server of rondo/1 is named", "[wire][greeting]") {
    const WireError error = error_of(from_text("RNDO\x01"));
    CHECK(error.code == Code::unknown_protocol);
    CHECK(error.message() == "the server speaks rondo/1, which this client does not know yet");
}

TEST_CASE("Greeting: another magic is refused and shown", "[wire][greeting]") {
    const WireError error = error_of(from_text("SSH-2.0-OpenSSH_9.2\r\n"));
    CHECK(error.code == Code::bad_magic);
    CHECK(error.message() ==
          "unexpected handshake magic \"SSH-\" (expected \"ECHO\"): is the peer "
          "a rondo or an echo server?");
    CHECK(contains(error_of(from_hex("16 03 01 ff")).message(), R"("\x16\x03\x01\xff")"));
    CHECK(error_of(from_text("ECHo")).code == Code::bad_magic);

    GreetingParser parser;
    const auto progress = parser.feed(from_text("HTTP/1.1 400"));
    CHECK(progress.consumed == magic_bytes);
    CHECK_FALSE(parser.protocol());
    CHECK(parser.feed(from_text("ECHO")).consumed == 0);
    CHECK(parser.state() == State::failed);
}

TEST_CASE("Greeting: another version is refused", "[wire][greeting]") {
    const WireError error = error_of(from_text("ECHO\x02"));
    CHECK(error.code == Code::unknown_protocol);
    CHECK(error.message() == "unsupported echo wire version 2 (this client supports 1)");
    CHECK(contains(error_of(from_hex("45 43 48 4f 00")).message(), "version 0"));
    CHECK(contains(error_of(from_hex("45 43 48 4f ff")).message(), "version 255"));
}

TEST_CASE("Greeting: hostile lengths are refused as soon as they are read", "[wire][greeting]") {
    for (const std::uint32_t count : {max_arrays + 1, 0x8000'0000U, max_u32}) {
        const WireError error = error_of(greeting_of({count}));
        CHECK(error.code == Code::limit_exceeded);
        CHECK(contains(error.message(), std::to_string(count) + " arrays"));
    }
    for (const std::uint32_t ndim : {max_dims + 1, 0x8000'0000U, max_u32}) {
        const WireError error = error_of(greeting_of({2, 4, 0, 4, ndim}));
        CHECK(error.code == Code::limit_exceeded);
        CHECK(contains(error.message(), std::to_string(ndim) + " dimensions for array 1"));
    }
}

TEST_CASE("Greeting: what is within the limits is read", "[wire][greeting]") {
    GreetingParser none;
    CHECK(none.feed(greeting_of({0})).state == State::done);
    CHECK(none.greeting().arrays.empty());

    GreetingParser extreme;
    CHECK(extreme.feed(greeting_of({2, 0, 2, max_u32, max_u32, max_u32, 1, 0})).state ==
          State::done);
    CHECK(extreme.greeting() == EchoGreeting{{{0, {max_u32, max_u32}}, {max_u32, {0}}}});

    std::vector<ArraySpec> arrays(max_arrays, {"", dtype::uint8, {}});
    for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i].path = std::to_string(i);
    arrays.back().shape.assign(max_dims, 1);
    const SampleSpec spec = spec_of(std::move(arrays));
    GreetingParser largest;
    REQUIRE(largest.feed(encode_greeting(spec).value()).state == State::done);
    CHECK(check_greeting(largest.greeting(), spec));
}

TEST_CASE("Greeting: a spec that echo/1 cannot carry is an error", "[wire][greeting]") {
    const auto refused = [](const SampleSpec& spec) {
        const auto encoded = encode_greeting(spec);
        REQUIRE_FALSE(encoded);
        CHECK(check_speakable(spec).error() == encoded.error());
        return encoded.error();
    };

    SECTION("a sample of 0 bytes") {
        CHECK(refused(spec_of("a:float32[0],b:uint8[3,0]")).code == Code::zero_payload);
        CHECK(check_speakable(spec_of("a:float32[0],b:uint8[]")));
    }
    SECTION("a dimension beyond 32 bits") {
        CHECK(check_speakable(spec_of({{"x", dtype::uint8, {max_u32}}})));
        const WireError error = refused(spec_of({{"x", dtype::uint8, {2, 4'294'967'296}}}));
        CHECK(error.code == Code::out_of_range);
        CHECK(contains(error.message(), R"("x" (uint8[2,4294967296]) has one of 4294967296)"));
        CHECK(refused(spec_of({{"x", dtype::uint8, {std::uint64_t{1} << 32U, 0}},
                               {"y", dtype::uint8, {}}}))
                  .code == Code::out_of_range);
    }
    SECTION("more dimensions than a client reads") {
        std::vector<std::uint64_t> shape(max_dims, 1);
        CHECK(check_speakable(spec_of({{"x", dtype::uint8, shape}})));
        shape.push_back(1);
        CHECK(refused(spec_of({{"x", dtype::uint8, shape}})).code == Code::out_of_range);
    }
    SECTION("more arrays than a client reads") {
        std::vector<ArraySpec> arrays(max_arrays + 1, {"", dtype::uint8, {}});
        for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i].path = std::to_string(i);
        const WireError error = refused(spec_of(std::move(arrays)));
        CHECK(error.code == Code::out_of_range);
        CHECK(contains(error.message(), "65537"));
    }
    SECTION("the largest item size is no problem") {
        CHECK(check_speakable(spec_of({{"x", dtype::opaque(max_u32), {}}})));
    }
}

TEST_CASE("Greeting: a mismatch shows both sides", "[wire][greeting]") {
    CHECK(mismatch_of("obs:float32[5],reward:float32[]", "obs:float32[4],reward:float32[]")
              .message() ==
          "Server spec mismatch: 1 of 2 arrays differs in item size or shape:\n"
          "  array 0: server [5] of 4-byte items, client \"obs\" (float32[4]) of 4-byte items");
    CHECK(mismatch_of("x:float64[2]", "x:float32[2]").message() ==
          "Server spec mismatch: 1 of 1 array differs in item size or shape:\n"
          "  array 0: server [2] of 8-byte items, client \"x\" (float32[2]) of 4-byte items");
    CHECK(mismatch_of("x:uint8[],y:uint8[2,3]", "x:uint8[]").message() ==
          "Server spec mismatch: 1 of 2 arrays differs in item size or shape:\n"
          "  array 1: server [2,3] of 1-byte items, client has none");
    CHECK(mismatch_of("x:uint8[]", "x:uint8[],y:uint8[2,3]").message() ==
          "Server spec mismatch: 1 of 2 arrays differs in item size or shape:\n"
          "  array 1: server has none, client \"y\" (uint8[2,3]) of 1-byte items");
}

TEST_CASE("Greeting: a mere permutation is recognised", "[wire][greeting]") {
    const auto hinted = [](std::string_view server, std::string_view client) {
        return contains(mismatch_of(server, client).message(), "in another order");
    };
    CHECK(hinted("a:uint8[1],b:float32[2]", "b:float32[2],a:uint8[1]"));
    CHECK(hinted("b:float32[2],a:uint8[1]", "a:uint8[1],b:float32[2]"));
    CHECK_FALSE(hinted("a:uint8[1],b:float32[2]", "b:float32[2],a:uint8[2]"));
    CHECK_FALSE(hinted("a:uint8[1]", "b:float32[2],a:uint8[1]"));
}

TEST_CASE("Greeting: a long mismatch is cut", "[wire][greeting]") {
    std::string server;
    std::string client;
    for (int i = 0; i < 25; ++i) {
        const std::string array = (i ? ",a" : "a") + std::to_string(i);
        server += array + ":uint8[1]";
        client += array + ":uint8[2]";
    }
    const std::string message = mismatch_of(server, client).message();
    CHECK(contains(message, "25 of 25 arrays"));
    CHECK(std::ranges::count(message, '\n') == 21);
    CHECK(contains(message, "and 5 more"));
}

TEST_CASE("Greeting: a dimension beyond 32 bits does not pass for its low half",
          "[wire][greeting]") {
    // Between peers of echo/1 it could: id-echo's server sends 2^32 as 0.
    const EchoGreeting server{{{1, {4}}}};
    const auto client = spec_of({{"x", dtype::uint8, {4'294'967'300}}});
    const auto checked = check_greeting(server, client);
    REQUIRE_FALSE(checked);
    CHECK(contains(checked.error().message(), "4294967300"));
    CHECK_FALSE(contains(checked.error().message(), "order"));
}

TEST_CASE("Greeting: echo/1 cannot tell dtypes of one size apart", "[wire][greeting]") {
    const EchoGreeting server{{{4, {2}}}};
    CHECK(check_greeting(server, spec_of("x:int32[2]")));
    CHECK(check_greeting(server, spec_of("y:float32[2]")));
}

TEST_CASE("Protocol: the text form reads back", "[wire][protocol]") {
    CHECK(to_text(Protocol::echo1) == "echo/1");
    CHECK(parse_protocol("echo/1") == Protocol::echo1);
    CHECK_FALSE(parse_protocol("rondo/1"));
    CHECK_FALSE(parse_protocol("echo"));
    CHECK_FALSE(parse_protocol(""));
    CHECK(magic(Protocol::echo1).size() == magic_bytes);
    CHECK(rondo_magic.size() == magic_bytes);
}
