// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <cstring>

namespace rondo::python {

std::vector<ArrayBytes> rows_from(std::span<const ArrayBytes> stacked, const SampleSpec& spec,
                                  std::size_t first) {
    std::vector<ArrayBytes> rest{stacked.begin(), stacked.end()};
    for (std::size_t i = 0; i < rest.size(); ++i) {
        rest[i] = rest[i].subspan(first * spec.array_bytes(i));
    }
    return rest;
}

Rows::Rows(const SampleSpec& spec, std::size_t capacity) : capacity_{capacity} {
    for (std::size_t i = 0; i < spec.size(); ++i) {
        columns_.emplace_back(capacity_ * spec.array_bytes(i));
    }
}

void Rows::add(std::span<const ArrayBytes> sample) noexcept {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const std::size_t size = sample[i].size();
        if (size > 0) std::memcpy(columns_[i].data() + count_ * size, sample[i].data(), size);
    }
    ++count_;
}

std::vector<ArrayBytes> Rows::stacked() const {
    std::vector<ArrayBytes> arrays;
    for (const auto& column : columns_) {
        arrays.push_back(std::span{column}.first(column.size() / capacity_ * count_));
    }
    return arrays;
}

}  // namespace rondo::python
