// SPDX-License-Identifier: Apache-2.0
#include "spec/checked.hpp"
#include "support/catch.hpp"
#include <rondo/spec.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

using rondo::ArraySpec;
using rondo::dtype;
using rondo::SampleSpec;
using rondo::SpecError;
using rondo::SpecLimits;
using Code = rondo::SpecError::Code;

namespace {

constexpr std::uint64_t max_u64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr SpecLimits no_limit{.max_payload_bytes = max_u64};

SampleSpec make(std::vector<ArraySpec> arrays, SpecLimits limits = {}) {
    auto spec = SampleSpec::create(std::move(arrays), limits);
    if (!spec) FAIL(spec.error().message());
    return *spec;
}

SpecError refusal(std::vector<ArraySpec> arrays, SpecLimits limits = {}) {
    auto spec = SampleSpec::create(std::move(arrays), limits);
    REQUIRE_FALSE(spec.has_value());
    return spec.error();
}

bool says(const SpecError& error, std::string_view words) {
    return error.message().find(words) != std::string::npos;
}

std::vector<ArraySpec> numbered(std::size_t count) {
    std::vector<ArraySpec> arrays;
    for (std::size_t i = 0; i < count; ++i) {
        arrays.push_back({std::to_string(i), dtype::uint8, {}});
    }
    return arrays;
}

}  // namespace

TEST_CASE("Spec: arrays keep their order and lie one after another in the payload") {
    const SampleSpec spec = make({
        {"obs", dtype::float32, {3}},
        {"action", dtype::int16, {2, 5}},
        {"reward", dtype::float64, {}},
        {"done", dtype::boolean, {1}},
    });
    REQUIRE(spec.size() == 4);
    CHECK(spec.arrays()[0] == ArraySpec{"obs", dtype::float32, {3}});
    CHECK(spec.arrays()[3].path == "done");
    CHECK(spec.array_bytes(0) == 12);
    CHECK(spec.array_bytes(1) == 20);
    CHECK(spec.array_bytes(2) == 8);
    CHECK(spec.array_bytes(3) == 1);
    CHECK(spec.array_offset(0) == 0);
    CHECK(spec.array_offset(1) == 12);
    CHECK(spec.array_offset(2) == 32);  // no padding before the float64
    CHECK(spec.array_offset(3) == 40);
    CHECK(spec.payload_bytes() == 41);
}

TEST_CASE("Spec: an array is found by its path") {
    const SampleSpec spec = make({{"", dtype::int8, {}}, {"a", dtype::int8, {}}});
    CHECK(spec.find("") == 0U);
    CHECK(spec.find("a") == 1U);
    CHECK(spec.find("b") == std::nullopt);
}

TEST_CASE("Spec: a 0-d array is one element") {
    CHECK(make({{"x", dtype::complex128, {}}}).payload_bytes() == 16);
}

TEST_CASE("Spec: a dimension of 0 makes an array of 0 bytes, whatever the others are") {
    const std::uint64_t big = std::uint64_t{1} << 40;
    const auto shape = GENERATE_COPY(values<std::vector<std::uint64_t>>(
        {{0}, {0, 7}, {7, 0}, {big, big, 0}, {0, big, big}, {big, 0, big}, {max_u64, max_u64, 0}}));
    const SampleSpec spec = make(
        {{"a", dtype::float32, {2}}, {"empty", dtype::float64, shape}, {"b", dtype::float32, {2}}});
    CHECK(spec.array_bytes(1) == 0);
    CHECK(spec.array_offset(1) == 8);
    CHECK(spec.array_offset(2) == 8);
    CHECK(spec.payload_bytes() == 16);
}

TEST_CASE("Spec: a spec whose whole payload is 0 bytes is a spec") {
    CHECK(make({{"empty", dtype::float64, {0}}}).payload_bytes() == 0);
}

TEST_CASE("Spec: no array at all is refused") {
    const SpecError error = refusal({});
    CHECK(error.code == Code::no_arrays);
    CHECK(says(error, "at least one array"));
}

TEST_CASE("Spec: two arrays of one path are refused, and both are shown") {
    const SpecError error = refusal({
        {"obs", dtype::float32, {4}},
        {"reward", dtype::float32, {}},
        {"obs", dtype::int32, {2, 3}},
    });
    CHECK(error.code == Code::duplicate_path);
    CHECK(says(error, R"(array 0, "obs" (float32[4]))"));
    CHECK(says(error, R"(array 2, "obs" (int32[2,3]))"));
    CHECK(says(error, "rename one"));
}

TEST_CASE("Spec: two arrays with the empty path are refused") {
    CHECK(refusal({{"", dtype::int8, {}}, {"", dtype::int8, {}}}).code == Code::duplicate_path);
}

TEST_CASE("Spec: a payload of exactly the limit is accepted, one byte more is refused") {
    CHECK(make({{"x", dtype::uint8, {gib}}}).payload_bytes() == gib);
    CHECK(make({{"x", dtype::uint8, {gib - 1}}, {"y", dtype::uint8, {}}}).payload_bytes() == gib);

    const SpecError error = refusal({{"x", dtype::uint8, {gib}}, {"y", dtype::uint8, {}}});
    CHECK(error.code == Code::too_large);
    CHECK(says(error, "at most 1073741824 bytes"));
    CHECK(says(error, "this one takes 1073741825"));
    CHECK(says(error, R"(most in "x" (uint8[1073741824]) with 1073741824)"));
    CHECK(says(error, "raise SpecLimits::max_payload_bytes"));
}

TEST_CASE("Spec: a raised limit admits more, to the last byte that 64 bits can count") {
    CHECK(make({{"x", dtype::uint8, {gib + 1}}}, {.max_payload_bytes = gib + 1}).payload_bytes() ==
          gib + 1);
    CHECK(make({{"x", dtype::uint8, {max_u64}}}, no_limit).payload_bytes() == max_u64);
    const SampleSpec two =
        make({{"x", dtype::uint8, {max_u64 - 1}}, {"y", dtype::uint8, {}}}, no_limit);
    CHECK(two.payload_bytes() == max_u64);
    CHECK(two.array_offset(1) == max_u64 - 1);
    CHECK(two.array_bytes(1) == 1);
}

TEST_CASE("Spec: a lowered limit holds too") {
    const SpecError error = refusal({{"x", dtype::float32, {4}}}, {.max_payload_bytes = 15});
    CHECK(error.code == Code::too_large);
    CHECK(make({{"x", dtype::float32, {0}}}, {.max_payload_bytes = 0}).payload_bytes() == 0);
}

TEST_CASE("Spec: as many arrays as the limit are accepted, one more is refused") {
    CHECK(make(numbered(3), {.max_arrays = 3}).size() == 3);
    const SpecError error = refusal(numbered(4), {.max_arrays = 3});
    CHECK(error.code == Code::too_many_arrays);
    CHECK(says(error, "at most 3 arrays, but the spec has 4"));
    CHECK(says(error, "raise SpecLimits::max_arrays"));

    CHECK(make(numbered(65'536)).payload_bytes() == 65'536);
    CHECK(refusal(numbered(65'537)).code == Code::too_many_arrays);
}

TEST_CASE("Spec: dimensions whose product exceeds 64 bits are refused, with path and shape") {
    const std::uint64_t big = std::uint64_t{1} << 32;
    const SpecError error =
        refusal({{"fine", dtype::uint8, {1}}, {"deep/x", dtype::uint8, {big, big}}}, no_limit);
    CHECK(error.code == Code::size_overflow);
    CHECK(says(error, R"("deep/x" (uint8[4294967296,4294967296]))"));
    CHECK(says(error, "64 bits"));
    CHECK(says(error, "correct its shape"));
}

TEST_CASE("Spec: elements that 64 bits can count, but not their bytes, are refused") {
    const std::uint64_t elements = std::uint64_t{1} << 61;
    CHECK(make({{"x", dtype::float32, {elements}}}, no_limit).payload_bytes() == 4 * elements);
    CHECK(refusal({{"x", dtype::float64, {elements}}}, no_limit).code == Code::size_overflow);
    CHECK(refusal({{"x", dtype::opaque(4294967295), {elements}}}).code == Code::size_overflow);
}

TEST_CASE("Spec: arrays whose sum exceeds 64 bits are refused, with the two numbers") {
    const SpecError error =
        refusal({{"x", dtype::uint8, {max_u64}}, {"y", dtype::uint16, {}}}, no_limit);
    CHECK(error.code == Code::size_overflow);
    CHECK(says(error, R"("y" (uint16[]) adds 2 bytes to the 18446744073709551615)"));
}

TEST_CASE("Spec: a message shows no control character of a path and stays short") {
    const std::string path = "a\n\x1b[31m\x7f\xff\xc2\x9b" + std::string(10'000, 'x');
    const SpecError error = refusal({{path, dtype::int8, {}}, {path, dtype::int8, {}}});
    CHECK(says(error, R"("a\x0a\x1b[31m\x7f\xff\xc2\x9bxxx)"));
    CHECK(says(error, R"(xxx...")"));
    CHECK(error.message().size() < 700);
    for (const char character : error.message()) {
        CHECK((character >= ' ' && character <= '~'));
    }
}

TEST_CASE("Spec: a message shows a path in any script as it is") {
    const std::string path = "Zürich/東京/\U0001F916";
    CHECK(says(refusal({{path, dtype::int8, {}}, {path, dtype::int8, {}}}), '"' + path + '"'));
}

TEST_CASE("Spec: malformed or deceptive UTF-8 in a message is shown as bytes") {
    const auto [bytes, shown] = GENERATE(table<std::string, std::string>({
        {"\xc3", R"("\xc3")"},                                    // ends early
        {"\xc0\xaf", R"("\xc0\xaf")"},                            // overlong
        {"\xe0\x80\xaf", R"("\xe0\x80\xaf")"},                    // overlong
        {"\xed\xa0\x80", R"("\xed\xa0\x80")"},                    // a surrogate
        {"\xf4\x90\x80\x80", R"("\xf4\x90\x80\x80")"},            // beyond Unicode
        {std::string{"\xe2\x80"} + '\xae', R"("\xe2\x80\xae")"},  // writes from right to left
        {"\xc3(", R"("\xc3(")"},                                  // no continuation
        {"\x80", R"("\x80")"},                                    // continues nothing
    }));
    CHECK(says(refusal({{bytes, dtype::int8, {}}, {bytes, dtype::int8, {}}}), shown));
}

TEST_CASE("Spec: specs are equal if paths, dtypes, shapes and their order are") {
    const std::vector<ArraySpec> arrays{{"a", dtype::int32, {2}}, {"b", dtype::float32, {}}};
    const SampleSpec spec = make(arrays);
    CHECK(spec == make(arrays));
    CHECK(spec != make({arrays[1], arrays[0]}));
    CHECK(spec != make({arrays[0]}));
    CHECK(spec != make({{"c", dtype::int32, {2}}, arrays[1]}));
    CHECK(spec != make({{"a", dtype::float32, {2}}, arrays[1]}));
    CHECK(spec != make({{"a", dtype::int32, {2, 1}}, arrays[1]}));
    CHECK(spec != make({arrays[0], {"b", dtype::float32, {1}}}));
}

TEST_CASE("Spec: a copy shares the arrays") {
    const SampleSpec spec = make({{"a", dtype::int32, {2}}});
    const std::vector<SampleSpec> copies(2, spec);
    CHECK(copies[0] == spec);
    CHECK(copies[0].arrays().data() == spec.arrays().data());
    CHECK(copies[1].arrays().data() == spec.arrays().data());
}

TEST_CASE("Spec: a spec that was moved from is as it was") {
    STATIC_REQUIRE(std::is_nothrow_move_constructible_v<SampleSpec>);
    STATIC_REQUIRE(std::is_nothrow_move_assignable_v<SampleSpec>);
    SampleSpec spec = make({{"a", dtype::int32, {2}}});
    const SampleSpec taken = std::move(spec);
    CHECK(spec == taken);  // NOLINT(bugprone-use-after-move): a move is documented to be a copy
    CHECK(spec.payload_bytes() == 8);

    SampleSpec other = make({{"b", dtype::int8, {}}});
    other = std::move(spec);
    CHECK(other == taken);
    CHECK(spec == taken);  // NOLINT(bugprone-use-after-move): as above
}

TEST_CASE("Spec: checked sums and products tell when 64 bits are exceeded") {
    using rondo::checked_add;
    using rondo::checked_mul;
    using rondo::checked_product;
    STATIC_REQUIRE(checked_add(max_u64 - 1, 1) == max_u64);
    STATIC_REQUIRE(checked_add(max_u64, 1) == std::nullopt);
    STATIC_REQUIRE(checked_mul(max_u64, 1) == max_u64);
    STATIC_REQUIRE(checked_mul(max_u64, 0) == 0U);
    STATIC_REQUIRE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32) == std::nullopt);
    CHECK(checked_product({}) == 1U);
    CHECK(checked_product(std::vector<std::uint64_t>{max_u64, max_u64}) == std::nullopt);
    CHECK(checked_product(std::vector<std::uint64_t>{max_u64, max_u64, 0}) == 0U);
}
