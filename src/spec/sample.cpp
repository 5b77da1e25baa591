// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/assert.hpp>
#include <rondo/sample.hpp>

#include <cstring>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t alignment = 16;
static_assert(alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "operator new[] must align to this");

constexpr std::size_t aligned(std::uint64_t bytes) noexcept {
    return (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
}

}  // namespace

Sample::Sample(SampleSpec spec) : spec_{std::move(spec)} {
    allocate();
}

Sample::Sample(const Sample& other) : spec_{other.spec_} {
    allocate();
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
        const std::span<std::byte> bytes = checked_bytes(i, nullptr);
        if (!bytes.empty()) std::memcpy(bytes.data(), other.arrays_[i].data(), bytes.size());
    }
}

Sample& Sample::operator=(const Sample& other) {
    if (this != &other) *this = Sample{other};
    return *this;
}

void Sample::allocate() {
    std::size_t total = 0;
    for (std::size_t i = 0; i < spec_.size(); ++i) total += aligned(spec_.array_bytes(i));
    memory_ = std::make_unique<std::byte[]>(total);  // NOLINT(modernize-avoid-c-arrays)
    arrays_.reserve(spec_.size());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < spec_.size(); ++i) {
        arrays_.emplace_back(memory_.get() + offset,
                             static_cast<std::size_t>(spec_.array_bytes(i)));
        offset += aligned(spec_.array_bytes(i));
    }
}

std::size_t Sample::index_of(std::string_view path) const {
    const auto index = spec_.find(path);
    RONDO_ASSERT(index.has_value(), "Sample::array: the spec must have an array of this path");
    return *index;
}

std::span<std::byte> Sample::checked_bytes(std::size_t index, const dtype* wanted) {
    RONDO_ASSERT(index < arrays_.size(), "Sample::array: the index must be below spec().size()");
    RONDO_ASSERT(wanted == nullptr || spec_.arrays()[index].type == *wanted,
                 "Sample::array<T>: T must be the array's dtype (or std::byte)");
    // The memory is this sample's own; arrays_ shows it to readers as const.
    return {const_cast<std::byte*>(arrays_[index].data()),  // NOLINT(*-const-cast)
            arrays_[index].size()};
}

}  // namespace rondo
