// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include <rondo/dtype.hpp>

#include <complex>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

using rondo::dtype;
using Kind = rondo::dtype::Kind;

namespace {

struct Expected {
    dtype type;
    std::string name;
    Kind kind;
    std::uint32_t item_size;
};

std::vector<Expected> every_dtype() {
    return {
        {dtype::boolean, "bool", Kind::boolean, 1},
        {dtype::int8, "int8", Kind::signed_integer, 1},
        {dtype::int16, "int16", Kind::signed_integer, 2},
        {dtype::int32, "int32", Kind::signed_integer, 4},
        {dtype::int64, "int64", Kind::signed_integer, 8},
        {dtype::uint8, "uint8", Kind::unsigned_integer, 1},
        {dtype::uint16, "uint16", Kind::unsigned_integer, 2},
        {dtype::uint32, "uint32", Kind::unsigned_integer, 4},
        {dtype::uint64, "uint64", Kind::unsigned_integer, 8},
        {dtype::float16, "float16", Kind::floating, 2},
        {dtype::bfloat16, "bfloat16", Kind::brain_floating, 2},
        {dtype::float32, "float32", Kind::floating, 4},
        {dtype::float64, "float64", Kind::floating, 8},
        {dtype::complex64, "complex64", Kind::complex_floating, 8},
        {dtype::complex128, "complex128", Kind::complex_floating, 16},
        {dtype::opaque(1), "opaque1", Kind::opaque, 1},
        {dtype::opaque(16), "opaque16", Kind::opaque, 16},
        {dtype::opaque(std::numeric_limits<std::uint32_t>::max()), "opaque4294967295", Kind::opaque,
         4294967295},
    };
}

// What a child process prints to stderr while it runs `action`, and how it ends.
struct Ending {
    std::string output;
    int signal = 0;  // 0: it was not a signal that ended it
};

Ending run_in_child(void (*action)()) {
    int ends[2] = {};
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);  // not Catch2's handler, which would report the test failed
        ::dup2(ends[1], STDERR_FILENO);
        action();
        ::_exit(0);
    }
    ::close(ends[1]);
    Ending ending;
    char buffer[256];
    for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
        ending.output.append(buffer, static_cast<std::size_t>(got));
    }
    ::close(ends[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
    return ending;
}

}  // namespace

TEST_CASE("Spec: every dtype has its name, kind and width") {
    for (const Expected& expected : every_dtype()) {
        INFO(expected.name);
        CHECK(expected.type.name() == expected.name);
        CHECK(expected.type.kind() == expected.kind);
        CHECK(expected.type.item_size() == expected.item_size);
    }
}

TEST_CASE("Spec: a dtype's name is read back as that dtype") {
    for (const Expected& expected : every_dtype()) {
        INFO(expected.name);
        const auto read = dtype::parse(expected.name);
        REQUIRE(read.has_value());
        CHECK(*read == expected.type);
    }
}

TEST_CASE("Spec: no two dtypes are equal, though some have the same width") {
    const auto all = every_dtype();
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < all.size(); ++j) {
            INFO(all[i].name << " and " << all[j].name);
            CHECK((all[i].type == all[j].type) == (i == j));
        }
    }
}

TEST_CASE("Spec: what is not a dtype's name is not read") {
    const auto name =
        GENERATE(as<std::string>{}, "", "float", "Float32", "float32 ", " float32", "float128",
                 "float322", "int", "int128", "uint", "boolean", "opaque", "opaque0", "opaque016",
                 "opaque-1", "opaque+1", "opaque1 ", "opaque1x", "opaque4294967296",
                 "opaque99999999999999999999", "complex32", "bfloat32");
    INFO(name);
    CHECK_FALSE(dtype::parse(name).has_value());
    CHECK_FALSE(dtype::parse(std::string_view{"float32\0", 8}).has_value());
}

TEST_CASE("Spec: a C++ type has the dtype of its kind and width") {
    STATIC_REQUIRE(dtype::of<bool>() == dtype::boolean);
    STATIC_REQUIRE(dtype::of<std::int8_t>() == dtype::int8);
    STATIC_REQUIRE(dtype::of<std::int16_t>() == dtype::int16);
    STATIC_REQUIRE(dtype::of<std::int32_t>() == dtype::int32);
    STATIC_REQUIRE(dtype::of<std::int64_t>() == dtype::int64);
    STATIC_REQUIRE(dtype::of<long long>() == dtype::int64);
    STATIC_REQUIRE(dtype::of<std::uint8_t>() == dtype::uint8);
    STATIC_REQUIRE(dtype::of<std::uint16_t>() == dtype::uint16);
    STATIC_REQUIRE(dtype::of<std::uint32_t>() == dtype::uint32);
    STATIC_REQUIRE(dtype::of<std::uint64_t>() == dtype::uint64);
    STATIC_REQUIRE(dtype::of<unsigned long long>() == dtype::uint64);
    STATIC_REQUIRE(dtype::of<float>() == dtype::float32);
    STATIC_REQUIRE(dtype::of<double>() == dtype::float64);
    STATIC_REQUIRE(dtype::of<std::complex<float>>() == dtype::complex64);
    STATIC_REQUIRE(dtype::of<std::complex<double>>() == dtype::complex128);
    CHECK(dtype::of<std::byte>() == dtype::opaque(1));
}

TEST_CASE("Spec: a const C++ type has the dtype of the type itself") {
    STATIC_REQUIRE(dtype::of<const bool>() == dtype::boolean);
    STATIC_REQUIRE(dtype::of<const std::int32_t>() == dtype::int32);
    STATIC_REQUIRE(dtype::of<const float>() == dtype::float32);
    STATIC_REQUIRE(dtype::of<const std::complex<float>>() == dtype::complex64);
    STATIC_REQUIRE(dtype::of<const std::byte>() == dtype::of<std::byte>());
}

TEST_CASE("Spec: a dtype is a small value") {
    STATIC_REQUIRE(sizeof(dtype) == 8);
    STATIC_REQUIRE(std::is_trivially_copyable_v<dtype>);
}

TEST_CASE("Spec: an opaque dtype of no bytes ends the program and names the contract") {
    const Ending ending = run_in_child([] { static_cast<void>(dtype::opaque(0)); });
    CHECK(ending.signal == SIGABRT);
    CHECK(ending.output.find("dtype.cpp:") != std::string::npos);
    CHECK(ending.output.find("an opaque element takes at least one byte (width > 0)") !=
          std::string::npos);
}
