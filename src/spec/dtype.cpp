// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/assert.hpp>
#include <rondo/dtype.hpp>

#include <array>
#include <charconv>
#include <system_error>

namespace rondo {
namespace {

struct Named {
    std::string_view name;
    dtype type;
};

constexpr std::array named_dtypes{
    Named{"bool", dtype::boolean},          Named{"int8", dtype::int8},
    Named{"int16", dtype::int16},           Named{"int32", dtype::int32},
    Named{"int64", dtype::int64},           Named{"uint8", dtype::uint8},
    Named{"uint16", dtype::uint16},         Named{"uint32", dtype::uint32},
    Named{"uint64", dtype::uint64},         Named{"float16", dtype::float16},
    Named{"bfloat16", dtype::bfloat16},     Named{"float32", dtype::float32},
    Named{"float64", dtype::float64},       Named{"complex64", dtype::complex64},
    Named{"complex128", dtype::complex128},
};

constexpr std::string_view opaque_prefix = "opaque";

}  // namespace

dtype dtype::opaque(std::uint32_t width) {
    RONDO_ASSERT(width > 0, "an opaque element takes at least one byte");
    return dtype{Kind::opaque, width};
}

std::optional<dtype> dtype::parse(std::string_view name) noexcept {
    for (const Named& known : named_dtypes) {
        if (known.name == name) return known.type;
    }
    if (!name.starts_with(opaque_prefix)) return std::nullopt;

    const std::string_view digits = name.substr(opaque_prefix.size());
    // One dtype, one name: no leading zero, which also refuses a width of 0.
    if (digits.starts_with('0')) return std::nullopt;
    std::uint32_t width = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, width);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return dtype{Kind::opaque, width};
}

std::string dtype::name() const {
    for (const Named& known : named_dtypes) {
        if (known.type == *this) return std::string{known.name};
    }
    return std::string{opaque_prefix} + std::to_string(item_size_);
}

}  // namespace rondo
