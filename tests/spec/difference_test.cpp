// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include <rondo/spec.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using rondo::ArraySpec;
using rondo::dtype;
using rondo::SampleSpec;

namespace {

SampleSpec spec_of(std::string_view text) {
    auto spec = SampleSpec::parse(text);
    if (!spec) FAIL(spec.error().message());
    return *spec;
}

std::string between(std::string_view server, std::string_view client) {
    return difference(spec_of(server), spec_of(client), "server", "client");
}

SampleSpec numbered(std::size_t count, dtype type) {
    std::vector<ArraySpec> arrays;
    for (std::size_t i = 0; i < count; ++i) arrays.push_back({std::to_string(i), type, {}});
    auto spec = SampleSpec::create(std::move(arrays));
    REQUIRE(spec.has_value());
    return *spec;
}

std::ptrdiff_t lines_in(const std::string& text) {
    return std::ranges::count(text, '\n') + 1;
}

constexpr std::string_view order_hint =
    "Python (optree) orders dict keys alphabetically, C++ keeps the order given: use one order on "
    "both sides";

}  // namespace

TEST_CASE("Spec: equal specs have no difference") {
    CHECK(between("a:int32[],b:float32[2]", "a:int32[],b:float32[2]").empty());
}

TEST_CASE("Spec: a difference in dtype shows both, though their widths are equal") {
    CHECK(between("obs:float32[4],r:float32[]", "obs:int32[4],r:float32[]") ==
          R"("obs": server has float32[4], client has int32[4])");
}

TEST_CASE("Spec: a difference in shape shows both") {
    CHECK(between("obs:float32[4,1]", "obs:float32[4]") ==
          R"("obs": server has float32[4,1], client has float32[4])");
    CHECK(between("obs:float32[]", "obs:float32[1]") ==
          R"("obs": server has float32[], client has float32[1])");
}

TEST_CASE("Spec: a difference shows an array that is missing") {
    CHECK(between("a:int8[],b:int16[2]", "a:int8[]") ==
          R"("b": server has int16[2], client has no such array)");
}

TEST_CASE("Spec: a difference shows an array that is extra") {
    CHECK(between("a:int8[]", "b:int16[2],a:int8[]") ==
          R"("b": server has no such array, client has int16[2])");
}

TEST_CASE("Spec: a difference shows missing, differing and extra arrays, ours first") {
    CHECK(between("a:int8[],b:int16[],c:int32[]", "new:bool[],b:uint16[],c:int32[]") ==
          "\"a\": server has int8[], client has no such array\n"
          "\"b\": server has int16[], client has uint16[]\n"
          "\"new\": server has no such array, client has bool[]");
}

TEST_CASE("Spec: specs with nothing in common have every array in their difference") {
    CHECK(between("a:int8[]", "b:int8[]") ==
          "\"a\": server has int8[], client has no such array\n"
          "\"b\": server has no such array, client has int8[]");
}

TEST_CASE("Spec: the same arrays in another order are recognised, with a hint") {
    const std::string text = between("obs:float32[4],action:int32[],reward:float32[]",
                                     "action:int32[],obs:float32[4],reward:float32[]");
    CHECK(text ==
          "the same arrays in another order: server has \"obs\" before \"action\", client "
          "after it; " +
              std::string{order_hint});
}

TEST_CASE("Spec: every order of three arrays but the same one is recognised") {
    std::vector<ArraySpec> arrays{
        {"a", dtype::int8, {}}, {"b", dtype::int8, {}}, {"c", dtype::int8, {}}};
    const auto ours = SampleSpec::create(arrays);
    REQUIRE(ours.has_value());
    int orders = 0;
    while (std::ranges::next_permutation(arrays, {}, &ArraySpec::path).found) {
        const auto theirs = SampleSpec::create(arrays);
        REQUIRE(theirs.has_value());
        const std::string text = difference(*ours, *theirs);
        CHECK(text.starts_with("the same arrays in another order: ours has "));
        CHECK(lines_in(text) == 1);
        ++orders;
    }
    CHECK(orders == 5);
}

TEST_CASE("Spec: another order beside other differences is told last") {
    CHECK(between("a:int8[],b:int8[],gone:int8[]", "b:int8[],a:int16[]") ==
          "\"a\": server has int8[], client has int16[]\n"
          "\"gone\": server has int8[], client has no such array\n"
          "the order differs too: server has \"a\" before \"b\", client after it; " +
              std::string{order_hint});
}

TEST_CASE("Spec: a missing array alone is no difference in order") {
    CHECK(lines_in(between("a:int8[],b:int8[],c:int8[]", "a:int8[],c:int8[]")) == 1);
    CHECK(lines_in(between("a:int8[],c:int8[]", "a:int8[],b:int8[],c:int8[]")) == 1);
}

TEST_CASE("Spec: a difference of 20 lines is shown whole") {
    const std::string text = difference(numbered(20, dtype::int32), numbered(20, dtype::float32));
    CHECK(lines_in(text) == 20);
    CHECK(text.ends_with(R"("19": ours has int32[], theirs has float32[])"));
}

TEST_CASE("Spec: a longer difference shows 20 lines and the number of those left out") {
    const std::string text = difference(numbered(21, dtype::int32), numbered(21, dtype::float32));
    CHECK(lines_in(text) == 21);
    CHECK(text.ends_with("\n... and 1 more"));

    const std::string extra = difference(numbered(5, dtype::int32), numbered(10'005, dtype::int32));
    CHECK(lines_in(extra) == 21);
    CHECK(extra.ends_with("\n... and 9980 more"));
}

TEST_CASE("Spec: a difference is fit for a log, whatever a peer sends") {
    std::vector<std::uint64_t> many_dimensions(10'000, 1);
    const auto theirs =
        SampleSpec::create({{"\n\x1b]0;title\a", dtype::int8, std::move(many_dimensions)},
                            {std::string(1'000'000, 'p'), dtype::int8, {}}});
    REQUIRE(theirs.has_value());
    const std::string text = difference(spec_of("a:int8[]"), *theirs, "server", "client");
    CHECK(lines_in(text) == 3);
    CHECK(text.size() < 1'000);
    CHECK(text.find(R"("\x0a\x1b]0;title\x07": server has no such array, client has int8[1,1)") !=
          std::string::npos);
    CHECK(text.find('\x1b') == std::string::npos);
}
