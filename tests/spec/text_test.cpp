// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include <rondo/spec.hpp>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

using rondo::ArraySpec;
using rondo::dtype;
using rondo::SampleSpec;
using rondo::SpecError;
using rondo::SpecLimits;
using Code = rondo::SpecError::Code;

namespace {

// The specs of the tests and benchmarks; `large` has the shapes of a published benchmark.
constexpr std::string_view tiny_text = "obs:float32[4],reward:float32[1]";

constexpr std::string_view small_text =
    "s0:float64[1],s1:float64[1],s2:float64[1],s3:float64[1],s4:float64[1],s5:float64[1],"
    "s6:float64[1],s7:float64[1],s8:float64[1],s9:float64[1],s10:float64[1],s11:float64[1],"
    "s12:float64[1],s13:float64[1],s14:float64[1],s15:float64[1],s16:float64[1],"
    "s17:float64[1],s18:float64[1],s19:float64[1],s20:float64[1],s21:float64[1],"
    "s22:float64[1],s23:float64[1],s24:float64[1],s25:float64[1],s26:float64[1],"
    "s27:float64[1],s28:float64[1],s29:float64[1],s30:float64[1],s31:float64[1]";

constexpr std::string_view medium_text =
    "m0:float32[256],m1:float32[256],m2:float32[256],m3:float32[256],m4:float32[256],"
    "m5:float32[256],m6:float32[256],m7:float32[256]";

constexpr std::string_view atari_text =
    "obs:uint8[84,84,4],action:int32[1],reward:float32[1],done:bool[1],"
    "next_obs:uint8[84,84,4]";

constexpr std::string_view large_text =
    "_send_ts:float64[],action_mask:float32[5,10,17],feature_1:float32[5,2],"
    "feature_10:float32[5,80,2],feature_11:float32[5,80],feature_12:int32[5,80],"
    "feature_13:float16[5,80,16,2,5],feature_14:float16[5,80,16,2,5],"
    "feature_15:float16[5,80,16,1,5],feature_16:float16[5,80,16,1,5],"
    "feature_17:float32[5,10,17],feature_18:float32[5,10,8],feature_19:float32[5,10,2],"
    "feature_2:float32[5,4],feature_20:float32[5,10,2],feature_21:float32[5,10,9],"
    "feature_22:float32[5,10,8],feature_23:float32[5,10,8],feature_24:float32[5,10,4],"
    "feature_25:float32[5,10,1],feature_26:float32[5,10,5],feature_27:float32[5,10,40],"
    "feature_28:float32[5,10,30],feature_29:float32[5,10,10],feature_3:float32[5,3],"
    "feature_30:float32[5,10,8],feature_31:float32[5,10,8],feature_32:float32[5,10,8],"
    "feature_33:float32[5,10,2],feature_34:float32[5,10,6],feature_35:float32[5,10,2],"
    "feature_36:float32[5,10],feature_37:float16[5,10,16,6,14],"
    "feature_38:float16[5,10,16,6,14],feature_39:float32[5,10,32,24],"
    "feature_4:float32[5,80,2],feature_40:int32[5,10],feature_41:float16[5,10,16,3,14],"
    "feature_42:float16[5,10,16,3,14],feature_5:float32[5,80,2],feature_6:float32[5,80,1],"
    "feature_7:float32[5,80,8],feature_8:float32[5,80,2],feature_9:float32[5,80,6]";

constexpr SpecLimits no_limit{.max_payload_bytes = std::numeric_limits<std::uint64_t>::max()};

SampleSpec parsed(std::string_view text, SpecLimits limits = {}) {
    auto spec = SampleSpec::parse(text, limits);
    if (!spec) FAIL(spec.error().message());
    return *spec;
}

SpecError refusal(std::string_view text) {
    auto spec = SampleSpec::parse(text);
    REQUIRE_FALSE(spec.has_value());
    return spec.error();
}

bool says(const SpecError& error, std::string_view words) {
    return error.message().find(words) != std::string::npos;
}

/// Random specs; the same seed makes the same ones everywhere.
class Generator {
public:
    explicit Generator(std::uint64_t seed) : engine_{seed} {}

    std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }

    std::vector<ArraySpec> arrays() {
        std::vector<ArraySpec> arrays;
        std::unordered_set<std::string> paths;
        const std::uint64_t count = 1 + below(8);
        while (arrays.size() < count) {
            std::string path = this->path();
            if (!paths.insert(path).second) continue;
            arrays.push_back({std::move(path), type(), shape()});
        }
        return arrays;
    }

    char character() {
        static constexpr std::string_view common = ",:[]\\/~ab01 \"{}\n";
        if (below(8) == 0) return static_cast<char>(below(256));
        return common[below(common.size())];
    }

private:
    std::string path() {
        std::string path(below(10), ' ');
        for (char& c : path) c = character();
        return path;
    }

    dtype type() {
        static const std::vector<dtype> types{
            dtype::boolean,  dtype::int8,    dtype::int16,   dtype::int32,     dtype::int64,
            dtype::uint8,    dtype::uint16,  dtype::uint32,  dtype::uint64,    dtype::float16,
            dtype::bfloat16, dtype::float32, dtype::float64, dtype::complex64, dtype::complex128};
        const std::uint64_t choice = below(types.size() + 1);
        if (choice < types.size()) return types[choice];
        return dtype::opaque(static_cast<std::uint32_t>(1 + below(1000)));
    }

    std::vector<std::uint64_t> shape() {
        std::vector<std::uint64_t> shape(below(5));
        for (std::uint64_t& dimension : shape) dimension = below(100);
        return shape;
    }

    std::mt19937_64 engine_;
};

}  // namespace

TEST_CASE("Spec: the specs of the benchmarks are read, with their sizes, and written the same") {
    const auto [text, arrays, bytes] =
        GENERATE(table<std::string_view, std::size_t, std::uint64_t>({
            {tiny_text, 2, 20},
            {small_text, 32, 256},
            {medium_text, 8, 8'192},
            {atari_text, 5, 56'457},
            {large_text, 44, 1'020'388},
        }));
    const SampleSpec spec = parsed(text);
    CHECK(spec.size() == arrays);
    CHECK(spec.payload_bytes() == bytes);
    CHECK(spec.text() == text);
}

TEST_CASE("Spec: an array's text has its path, dtype and shape") {
    CHECK(ArraySpec{"obs", dtype::float32, {4}}.text() == "obs:float32[4]");
    CHECK(ArraySpec{"a/b", dtype::boolean, {84, 0, 3}}.text() == "a/b:bool[84,0,3]");
    CHECK(ArraySpec{"", dtype::opaque(24), {}}.text() == ":opaque24[]");
}

TEST_CASE("Spec: a path's reserved characters have a backslash before them in text") {
    CHECK(ArraySpec{R"(a,b:c[0]\)", dtype::int8, {}}.text() == R"(a\,b\:c\[0\]\\:int8[])");
    CHECK(ArraySpec{"a~1b/c d", dtype::int8, {}}.text() == "a~1b/c d:int8[]");
}

TEST_CASE("Spec: text is read to the arrays that it names, in order") {
    const SampleSpec spec = parsed(R"(obs:float32[4],:int64[],a\,\:\[\]\\b:opaque3[0,18])");
    REQUIRE(spec.size() == 3);
    CHECK(spec.arrays()[0] == ArraySpec{"obs", dtype::float32, {4}});
    CHECK(spec.arrays()[1] == ArraySpec{"", dtype::int64, {}});
    CHECK(spec.arrays()[2] == ArraySpec{R"(a,:[]\b)", dtype::opaque(3), {0, 18}});
}

TEST_CASE("Spec: a space in a path is part of it") {
    CHECK(parsed("a:int8[], b :int8[]").arrays()[1].path == " b ");
}

TEST_CASE("Spec: the largest dimension is read") {
    const SampleSpec spec = parsed("x:int8[18446744073709551615]", no_limit);
    CHECK(spec.payload_bytes() == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("Spec: what text names is checked as what create is given") {
    CHECK(refusal("").code == Code::no_arrays);
    CHECK(refusal("a:int8[],a:int8[]").code == Code::duplicate_path);
    CHECK(refusal(R"(a\::int8[],a\::int8[])").code == Code::duplicate_path);
    CHECK(refusal("a:int8[4294967296,4294967296]").code == Code::size_overflow);
    CHECK(refusal("a:int8[1073741825]").code == Code::too_large);
    CHECK(parsed("a:int8[1073741825]", no_limit).size() == 1);
    const auto too_many = SampleSpec::parse("a:int8[],b:int8[]", {.max_arrays = 1});
    REQUIRE_FALSE(too_many.has_value());
    CHECK(too_many.error().code == Code::too_many_arrays);
}

TEST_CASE("Spec: malformed text is refused with the place, what was expected and what was found") {
    struct Malformed {
        std::string_view text;
        std::size_t offset;
        std::string_view expected;
        std::string_view found;
    };
    constexpr std::string_view path = "the rest of a path and \":\"";
    constexpr std::string_view escape = "one of the characters , : [ ] \\ after a backslash";
    constexpr std::string_view type = "a dtype (bool, int8 to int64,";
    constexpr std::string_view shape = "\"[\" and a shape ([] is a scalar)";
    constexpr std::string_view first_dimension = "a dimension (digits) or \"]\" at";
    constexpr std::string_view dimension = "a dimension (digits) at";
    constexpr std::string_view more = "a digit, \",\" or \"]\"";
    constexpr std::string_view end = "\",\" and another array, or the end";
    constexpr std::string_view the_end = "the end of the text";

    const Malformed malformed = GENERATE_COPY(values<Malformed>({
        {"obs", 3, path, the_end},
        {",", 0, path, R"(",")"},
        {",a:int8[]", 0, path, R"(",")"},
        {"obs[4]:float32", 3, path, R"("[")"},
        {"a]:int8[]", 1, path, R"("]")"},
        {"a:int8[],", 9, path, the_end},
        {"a:int8[],,b:int8[]", 9, path, R"(",")"},
        {"a\\", 2, escape, the_end},
        {"a\\b:int8[]", 2, escape, R"("b")"},
        {"a:", 2, type, the_end},
        {"a:[4]", 2, type, R"("[")"},
        {"a:flaot32[4]", 2, type, R"("flaot32")"},
        {"a:float32 [4]", 2, type, R"("float32 ")"},
        {"a:opaque0[4]", 2, type, R"("opaque0")"},
        {"a:b:int8[]", 2, type, R"("b")"},
        {"a:int8", 6, shape, the_end},
        {"a:int8,b:int8[]", 6, shape, R"(",")"},
        {"a:int8]", 6, shape, R"("]")"},
        {"a:int8\\[]", 6, shape, R"("\")"},
        {"a:int8[", 7, first_dimension, the_end},
        {"a:int8[,4]", 7, first_dimension, R"(",")"},
        {"a:int8[ 4]", 7, first_dimension, R"(" 4")"},
        {"a:int8[-1]", 7, first_dimension, R"("-1")"},
        {"a:int8[+1]", 7, first_dimension, R"("+1")"},
        {"a:int8[None]", 7, first_dimension, R"("None")"},
        {"a:int8[4,", 9, dimension, the_end},
        {"a:int8[4,]", 9, dimension, R"("]")"},
        {"a:int8[4,,4]", 9, dimension, R"(",")"},
        {"a:int8[18446744073709551616]", 7, "a dimension of at most 18446744073709551615",
         R"("18446744073709551616")"},
        {"a:int8[4", 8, more, the_end},
        {"a:int8[4.0]", 8, more, R"(".0")"},
        {"a:int8[0x4]", 8, more, R"("x4")"},
        {"a:int8[4[", 8, more, R"("[")"},
        {"a:int8[4]b:int8[]", 9, end, R"("b")"},
        {"a:int8[4]]", 9, end, R"("]")"},
        {"a:int8[4] ", 9, end, R"(" ")"},
    }));
    const SpecError error = refusal(malformed.text);
    INFO(error.message());
    CHECK(error.code == Code::syntax);
    CHECK(says(error, "expected " + std::string{malformed.expected}));
    CHECK(says(error, "at offset " + std::to_string(malformed.offset) + ", found " +
                          std::string{malformed.found}));
    CHECK(error.message().ends_with("\n  " + std::string{malformed.text} + "\n  " +
                                    std::string(malformed.offset, ' ') + '^'));
}

TEST_CASE("Spec: a syntax error is a sentence, the text, and a mark under the place") {
    CHECK(refusal("obs:float32[4],reward:float32").message() ==
          "the spec cannot be read: expected \"[\" and a shape ([] is a scalar) at offset 29, "
          "found the end of the text\n"
          "  obs:float32[4],reward:float32\n"
          "                               ^");
}

TEST_CASE("Spec: a syntax error in a long text quotes the part around the place") {
    const std::string left(10'000, 'l');
    const std::string right(10'000, 'r');
    const SpecError error = refusal(left + "[" + right);
    CHECK(says(error, "at offset 10000, found \"[\""));
    CHECK(error.message().ends_with("\n  ..." + std::string(36, 'l') + "[" + std::string(35, 'r') +
                                    "...\n  " + std::string(39, ' ') + '^'));
}

TEST_CASE("Spec: the mark is under its place after letters of several bytes and control bytes") {
    CHECK(refusal("Zürich[").message().ends_with("\n  Zürich[\n        ^"));
    CHECK(refusal("a\nb[").message().ends_with("\n  a\\x0ab[\n        ^"));

    std::string text = "x";  // so that 36 bytes before the place fall into a letter
    for (int i = 0; i < 100; ++i) text += "ü";
    std::string shown;
    for (int i = 0; i < 18; ++i) shown += "ü";
    CHECK(refusal(text + "[")
              .message()
              .ends_with("\n  ..." + shown + "[\n  " + std::string(21, ' ') + '^'));
    shown.resize(shown.size() - 2);
    CHECK(refusal(text + "x[")
              .message()
              .ends_with("\n  ..." + shown + "x[\n  " + std::string(21, ' ') + '^'));
}

TEST_CASE("Spec: any spec is read back from its text") {
    Generator generator{20'240'611};
    for (int i = 0; i < 5'000; ++i) {
        const auto spec = SampleSpec::create(generator.arrays(), no_limit);
        REQUIRE(spec.has_value());
        const std::string text = spec->text();
        const auto read = SampleSpec::parse(text, no_limit);
        INFO(text);
        REQUIRE(read.has_value());
        REQUIRE(*read == *spec);
        REQUIRE(read->payload_bytes() == spec->payload_bytes());
    }
}

TEST_CASE("Spec: damaged text is read as something that it says, or refused with a sentence") {
    Generator generator{7};
    int refused = 0;
    for (int i = 0; i < 5'000; ++i) {
        const auto spec = SampleSpec::create(generator.arrays(), no_limit);
        REQUIRE(spec.has_value());
        std::string text = spec->text();
        const std::size_t place = generator.below(text.size());
        switch (generator.below(4)) {
            case 0:
                text.erase(place, 1);
                break;
            case 1:
                text.insert(place, 1, generator.character());
                break;
            case 2:
                text[place] = generator.character();
                break;
            default:
                text.resize(place);
                break;
        }
        INFO(text);
        const auto read = SampleSpec::parse(text, no_limit);
        if (read) {
            REQUIRE(parsed(read->text(), no_limit) == *read);
        } else {
            REQUIRE_FALSE(read.error().message().empty());
            ++refused;
        }
    }
    CHECK(refused > 1'000);
}
