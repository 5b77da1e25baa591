// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "wire/framing.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

using namespace rondo::wire;
using Code = WireError::Code;

namespace {

using Bytes = std::vector<std::byte>;

struct Outcome {
    std::uint64_t samples = 0;
    std::uint64_t in_flight = 0;
    std::optional<WireError> error;

    friend bool operator==(const Outcome&, const Outcome&) = default;
};

template <typename NextSize>
Outcome read_in_pieces(std::uint64_t sent, std::span<const std::byte> bytes, NextSize next_size) {
    AckReader reader;
    reader.sent(sent);
    Outcome outcome;
    while (!bytes.empty()) {
        const std::size_t piece = std::min<std::size_t>(next_size(), bytes.size());
        const auto acks = reader.feed(bytes.first(piece));
        outcome.samples += acks.samples;
        outcome.error = acks.error;
        bytes = bytes.subspan(piece);
    }
    outcome.in_flight = reader.in_flight();
    return outcome;
}

}  // namespace

TEST_CASE("AckReader: each 0x01 acknowledges one sample", "[wire][ack]") {
    AckReader reader;
    CHECK(reader.feed({}).samples == 0);
    reader.sent(3);
    CHECK(reader.in_flight() == 3);
    CHECK(reader.feed(ack_bytes(2)).samples == 2);
    CHECK(reader.in_flight() == 1);
    reader.sent(1);
    const auto acks = reader.feed(ack_bytes(2));
    CHECK(acks.samples == 2);
    CHECK_FALSE(acks.error);
    CHECK(reader.in_flight() == 0);
}

TEST_CASE("AckReader: another byte is an error; acks before it count", "[wire][ack]") {
    AckReader reader;
    reader.sent(5);
    const std::array bytes{ack, ack, std::byte{0xfe}, ack};
    const auto acks = reader.feed(bytes);
    CHECK(acks.samples == 2);
    REQUIRE(acks.error);
    CHECK(acks.error->code == Code::bad_ack);
    CHECK(acks.error->message() ==
          "the server sent 0xfe where an ack (0x01) was expected, after 2 "
          "acks, with 3 samples in flight");

    const auto later = reader.feed(ack_bytes(1));
    CHECK(later.samples == 0);
    CHECK(later.error == acks.error);
    CHECK(reader.in_flight() == 3);
}

TEST_CASE("AckReader: more acks than samples are an error", "[wire][ack]") {
    AckReader reader;
    reader.sent(2);
    const auto acks = reader.feed(ack_bytes(4));
    CHECK(acks.samples == 2);
    REQUIRE(acks.error);
    CHECK(acks.error->code == Code::excess_acks);
    CHECK(acks.error->message() == "the server acknowledged sample number 3, but only 2 were sent");
    CHECK(reader.in_flight() == 0);
}

TEST_CASE("AckReader: an ack before the first sample is an error", "[wire][ack]") {
    AckReader reader;
    const auto acks = reader.feed(ack_bytes(1));
    REQUIRE(acks.error);
    CHECK(acks.error->code == Code::excess_acks);
}

TEST_CASE("AckReader: any split of the stream counts the same", "[wire][ack]") {
    std::mt19937 random{99};
    for (int round = 0; round < 500; ++round) {
        Bytes bytes(random() % 60, ack);
        if (round % 3 == 0 && !bytes.empty()) {
            bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xffU);
        }
        const std::uint64_t sent = random() % 60;

        const Outcome whole = read_in_pieces(sent, bytes, [&bytes] { return bytes.size(); });
        REQUIRE(whole.samples + whole.in_flight == sent);
        REQUIRE(read_in_pieces(sent, bytes, [] { return 1U; }) == whole);
        REQUIRE(read_in_pieces(sent, bytes, [&random] { return random() % 7; }) == whole);
    }
}

TEST_CASE("Acks: the bytes to write are ones, a bounded number at a time", "[wire][ack]") {
    CHECK(ack_bytes(0).empty());
    CHECK(ack_bytes(3).size() == 3);
    CHECK(ack_bytes(max_ack_bytes + 1).size() == max_ack_bytes);
    CHECK(std::ranges::count(ack_bytes(max_ack_bytes), ack) == max_ack_bytes);
}
