// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace rondo {

/// The element type of an array: a kind and the bytes that one element takes.
///
/// A small value, compared by kind and width, so `int32` and `float32` differ although both take
/// four bytes. Elements are in the byte order of the host; rondo moves bytes and never converts.
/// Thread-safety: a value; every member is const.
class dtype {
public:
    enum class Kind : std::uint8_t {
        boolean,
        signed_integer,
        unsigned_integer,
        floating,
        brain_floating,
        complex_floating,
        opaque,  ///< bytes that rondo does not interpret
    };

    static const dtype boolean;
    static const dtype int8, int16, int32, int64;
    static const dtype uint8, uint16, uint32, uint64;
    static const dtype float16, bfloat16, float32, float64;
    static const dtype complex64, complex128;  ///< named by their whole width, as numpy does

    /// An element of `width` bytes without a meaning to rondo; `width` is 1 or more.
    /// Precondition: width > 0.
    [[nodiscard]] static dtype opaque(std::uint32_t width);

    /// The dtype with this name (`"float32"`, `"bool"`, `"opaque16"`), or nothing.
    [[nodiscard]] static std::optional<dtype> parse(std::string_view name) noexcept;

    /// The dtype of a C++ type, `const` or not. `std::byte` is `uint8`'s sibling `opaque1`; float16
    /// and bfloat16 have no C++20 type and are read as `std::uint16_t` bits through `Batch::bytes`.
    /// Does not compile for a character type: whether `char` is signed depends on the machine.
    template <typename T>
    [[nodiscard]] static constexpr dtype of() noexcept;

    [[nodiscard]] constexpr Kind kind() const noexcept { return kind_; }

    /// Bytes of one element.
    [[nodiscard]] constexpr std::uint32_t item_size() const noexcept { return item_size_; }

    /// `"float32"`, `"bool"`, `"opaque16"`: what `parse` reads.
    [[nodiscard]] std::string name() const;

    friend constexpr bool operator==(const dtype&, const dtype&) noexcept = default;

private:
    constexpr dtype(Kind kind, std::uint32_t item_size) noexcept
        : item_size_{item_size}, kind_{kind} {}

    std::uint32_t item_size_;
    Kind kind_;
};

inline constexpr dtype dtype::boolean{Kind::boolean, 1};
inline constexpr dtype dtype::int8{Kind::signed_integer, 1};
inline constexpr dtype dtype::int16{Kind::signed_integer, 2};
inline constexpr dtype dtype::int32{Kind::signed_integer, 4};
inline constexpr dtype dtype::int64{Kind::signed_integer, 8};
inline constexpr dtype dtype::uint8{Kind::unsigned_integer, 1};
inline constexpr dtype dtype::uint16{Kind::unsigned_integer, 2};
inline constexpr dtype dtype::uint32{Kind::unsigned_integer, 4};
inline constexpr dtype dtype::uint64{Kind::unsigned_integer, 8};
inline constexpr dtype dtype::float16{Kind::floating, 2};
inline constexpr dtype dtype::bfloat16{Kind::brain_floating, 2};
inline constexpr dtype dtype::float32{Kind::floating, 4};
inline constexpr dtype dtype::float64{Kind::floating, 8};
inline constexpr dtype dtype::complex64{Kind::complex_floating, 8};
inline constexpr dtype dtype::complex128{Kind::complex_floating, 16};

namespace detail {

template <typename T, typename... Candidates>
concept one_of = (std::same_as<T, Candidates> || ...);

}  // namespace detail

template <typename T>
constexpr dtype dtype::of() noexcept {
    using Element = std::remove_cv_t<T>;
    constexpr auto size = static_cast<std::uint32_t>(sizeof(Element));
    static_assert(!detail::one_of<Element, char, wchar_t, char8_t, char16_t, char32_t>,
                  "no dtype stands for characters: use std::int8_t, std::uint8_t or std::byte");
    if constexpr (std::same_as<Element, bool>) {
        return boolean;
    } else if constexpr (std::same_as<Element, std::byte>) {
        return dtype{Kind::opaque, size};
    } else if constexpr (std::integral<Element> && sizeof(Element) <= 8) {
        return dtype{std::signed_integral<Element> ? Kind::signed_integer : Kind::unsigned_integer,
                     size};
    } else if constexpr (detail::one_of<Element, std::complex<float>, std::complex<double>>) {
        return dtype{Kind::complex_floating, size};
    } else {
        static_assert(detail::one_of<Element, float, double>,
                      "no dtype stands for this type: read the array's bytes instead");
        return dtype{Kind::floating, size};
    }
}

}  // namespace rondo
