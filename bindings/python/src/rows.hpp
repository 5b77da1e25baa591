// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace rondo::python {

/// Stacked samples without the first `first`.
[[nodiscard]] std::vector<ArrayBytes> rows_from(std::span<const ArrayBytes> stacked,
                                                const SampleSpec& spec, std::size_t first);

/// Copies of single samples, stacked as the library takes many.
class Rows {
public:
    /// Takes up to `capacity` samples. Precondition: capacity > 0.
    Rows(const SampleSpec& spec, std::size_t capacity);

    [[nodiscard]] bool full() const noexcept { return count_ == capacity_; }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// Precondition: `sample` fits the spec, and it is not full.
    void add(std::span<const ArrayBytes> sample) noexcept;
    void clear() noexcept { count_ = 0; }

    [[nodiscard]] std::vector<ArrayBytes> stacked() const;

private:
    std::size_t capacity_;
    std::size_t count_ = 0;
    std::vector<std::vector<std::byte>> columns_;
};

}  // namespace rondo::python
