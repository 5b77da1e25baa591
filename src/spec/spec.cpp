// SPDX-License-Identifier: Apache-2.0
#include "spec/checked.hpp"
#include "spec/text.hpp"
#include <rondo/detail/assert.hpp>
#include <rondo/spec.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace rondo {

struct SampleSpec::Layout {
    std::vector<ArraySpec> arrays;
    std::vector<std::uint64_t> offsets;  // one more than arrays; the last is the payload's size
};

namespace {

using Code = SpecError::Code;

tl::unexpected<SpecError> fail(Code code, std::string what) {
    return tl::make_unexpected(SpecError{code, std::move(what)});
}

tl::expected<void, SpecError> check_count(std::size_t count, const SpecLimits& limits) {
    if (count == 0) {
        return fail(Code::no_arrays,
                    "a sample has at least one array, but the spec has none: add one");
    }
    if (count > limits.max_arrays) {
        return fail(Code::too_many_arrays,
                    "a sample has at most " + std::to_string(limits.max_arrays) +
                        " arrays, but the spec has " + std::to_string(count) +
                        ": raise SpecLimits::max_arrays, or stack arrays of one shape");
    }
    return {};
}

tl::expected<void, SpecError> check_paths(const std::vector<ArraySpec>& arrays) {
    std::unordered_map<std::string_view, std::size_t> seen;
    seen.reserve(arrays.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const auto [first, is_new] = seen.emplace(arrays[i].path, i);
        if (is_new) continue;
        return fail(Code::duplicate_path, "every array has a path of its own, but array " +
                                              std::to_string(first->second) + ", " +
                                              described(arrays[first->second]) + ", and array " +
                                              std::to_string(i) + ", " + described(arrays[i]) +
                                              ", have the same: rename one");
    }
    return {};
}

std::optional<std::uint64_t> bytes_of(const ArraySpec& array) {
    const std::optional<std::uint64_t> elements = checked_product(array.shape);
    if (!elements) return std::nullopt;
    return checked_mul(*elements, array.type.item_size());
}

tl::expected<std::vector<std::uint64_t>, SpecError> offsets_of(
    const std::vector<ArraySpec>& arrays) {
    std::vector<std::uint64_t> offsets{0};
    offsets.reserve(arrays.size() + 1);
    for (const ArraySpec& array : arrays) {
        const std::optional<std::uint64_t> bytes = bytes_of(array);
        if (!bytes) {
            return fail(Code::size_overflow,
                        "an array's size in bytes fits in 64 bits, but that of " +
                            described(array) + " does not: correct its shape");
        }
        const std::optional<std::uint64_t> end = checked_add(offsets.back(), *bytes);
        if (!end) {
            return fail(Code::size_overflow, "a sample's size in bytes fits in 64 bits, but " +
                                                 described(array) + " adds " +
                                                 std::to_string(*bytes) + " bytes to the " +
                                                 std::to_string(offsets.back()) +
                                                 " of the arrays before it: correct the shapes");
        }
        offsets.push_back(*end);
    }
    return offsets;
}

tl::expected<void, SpecError> check_payload(const std::vector<ArraySpec>& arrays,
                                            const std::vector<std::uint64_t>& offsets,
                                            const SpecLimits& limits) {
    if (offsets.back() <= limits.max_payload_bytes) return {};
    std::size_t largest = 0;
    std::uint64_t largest_bytes = 0;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const std::uint64_t bytes = offsets[i + 1] - offsets[i];
        if (bytes > largest_bytes) {
            largest = i;
            largest_bytes = bytes;
        }
    }
    return fail(Code::too_large,
                "a sample takes at most " + std::to_string(limits.max_payload_bytes) +
                    " bytes, but this one takes " + std::to_string(offsets.back()) + ", most in " +
                    described(arrays[largest]) + " with " + std::to_string(largest_bytes) +
                    ": correct the shapes, or raise SpecLimits::max_payload_bytes");
}

}  // namespace

SampleSpec::SampleSpec(std::shared_ptr<const Layout> layout) noexcept
    : layout_{std::move(layout)} {}

tl::expected<SampleSpec, SpecError> SampleSpec::create(std::vector<ArraySpec> arrays,
                                                       SpecLimits limits) {
    if (auto ok = check_count(arrays.size(), limits); !ok) {
        return tl::make_unexpected(std::move(ok.error()));
    }
    if (auto ok = check_paths(arrays); !ok) return tl::make_unexpected(std::move(ok.error()));
    auto offsets = offsets_of(arrays);
    if (!offsets) return tl::make_unexpected(std::move(offsets.error()));
    if (auto ok = check_payload(arrays, *offsets, limits); !ok) {
        return tl::make_unexpected(std::move(ok.error()));
    }
    return SampleSpec{
        std::make_shared<const Layout>(Layout{std::move(arrays), *std::move(offsets)})};
}

std::span<const ArraySpec> SampleSpec::arrays() const noexcept {
    return layout_->arrays;
}

std::uint64_t SampleSpec::payload_bytes() const noexcept {
    return layout_->offsets.back();
}

std::uint64_t SampleSpec::array_bytes(std::size_t index) const noexcept {
    RONDO_ASSERT(index < size(), "the index of an array is less than the number of arrays");
    return layout_->offsets[index + 1] - layout_->offsets[index];
}

std::uint64_t SampleSpec::array_offset(std::size_t index) const noexcept {
    RONDO_ASSERT(index < size(), "the index of an array is less than the number of arrays");
    return layout_->offsets[index];
}

std::optional<std::size_t> SampleSpec::find(std::string_view path) const noexcept {
    const auto found = std::ranges::find(layout_->arrays, path, &ArraySpec::path);
    if (found == layout_->arrays.end()) return std::nullopt;
    return static_cast<std::size_t>(found - layout_->arrays.begin());
}

bool operator==(const SampleSpec& a, const SampleSpec& b) noexcept {
    return a.layout_ == b.layout_ || a.layout_->arrays == b.layout_->arrays;
}

}  // namespace rondo
