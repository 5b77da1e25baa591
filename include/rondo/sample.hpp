// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/spec.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace rondo {

/// The bytes of one array: of a sample, of several stacked ones, or of a batch.
using ArrayBytes = std::span<const std::byte>;

/// One sample that owns its memory: a value for every array of a spec, zero at first.
///
/// Meant to be filled, inserted or sent, and filled again. Thread-safety: as for a vector. Moving
/// keeps the spans that were taken valid; copying makes a deep copy.
class Sample {
public:
    /// Throws only std::bad_alloc.
    explicit Sample(SampleSpec spec);
    Sample(const Sample& other);
    Sample& operator=(const Sample& other);
    Sample(Sample&&) noexcept = default;
    Sample& operator=(Sample&&) noexcept = default;
    ~Sample() = default;

    [[nodiscard]] const SampleSpec& spec() const noexcept { return spec_; }

    /// The elements of the array `path`, C-ordered; for `T` = std::byte, its bytes whatever the
    /// dtype. Precondition: the spec has that array, and `T` is its dtype.
    template <typename T>
    [[nodiscard]] std::span<T> array(std::string_view path) {
        return elements<T>(index_of(path));
    }
    template <typename T>
    [[nodiscard]] std::span<T> array(std::size_t index) {
        return elements<T>(index);
    }

    /// Every array's bytes, in spec order: what `insert` and `send` take.
    [[nodiscard]] std::span<const ArrayBytes> arrays() const noexcept { return arrays_; }

private:
    [[nodiscard]] std::size_t index_of(std::string_view path) const;
    [[nodiscard]] std::span<std::byte> checked_bytes(std::size_t index, const dtype* wanted);

    template <typename T>
    std::span<T> elements(std::size_t index) {
        if constexpr (std::same_as<T, std::byte>) {
            return checked_bytes(index, nullptr);
        } else {
            constexpr dtype wanted = dtype::of<T>();
            const std::span<std::byte> bytes = checked_bytes(index, &wanted);
            return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
        }
    }

    void allocate();

    SampleSpec spec_;
    // Each array begins on a 16-byte boundary, so that any element type may be read in place.
    std::unique_ptr<std::byte[]> memory_;  // NOLINT(modernize-avoid-c-arrays)
    std::vector<ArrayBytes> arrays_;
};

}  // namespace rondo
