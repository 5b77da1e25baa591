// SPDX-License-Identifier: Apache-2.0
#include "client/outgoing.hpp"

#include <algorithm>

namespace rondo::detail {
namespace {

// Memory beyond this is given back once it is empty: it was for the rest of a large sample.
constexpr std::size_t kept_capacity = std::size_t{256} * 1024;

}  // namespace

void OutBuffer::reserve(std::size_t bytes) {
    if (bytes_.capacity() - bytes_.size() >= bytes) return;
    // What is written makes room before memory is asked for.
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
    // At least doubles: vector::reserve would take each request to the letter.
    if (bytes_.capacity() - bytes_.size() < bytes) {
        bytes_.reserve(std::max(bytes_.size() + bytes, 2 * bytes_.capacity()));
    }
}

void OutBuffer::append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void OutBuffer::consume(std::size_t bytes) noexcept {
    head_ += bytes;
    if (empty()) clear();
}

void OutBuffer::clear() noexcept {
    bytes_.clear();
    head_ = 0;
    if (bytes_.capacity() > kept_capacity) std::vector<std::byte>{}.swap(bytes_);
}

void Gather::assign(const SampleSpec& spec, std::span<const ArrayBytes> stacked, std::size_t first,
                    std::size_t rows) {
    parts_.clear();
    parts_.reserve(rows * stacked.size());
    for (std::size_t row = first; row < first + rows; ++row) {
        for (std::size_t i = 0; i < stacked.size(); ++i) {
            const std::size_t item = spec.array_bytes(i);
            if (item == 0) continue;
            // writev takes mutable memory for the sake of readv, and changes none.
            auto* const base = const_cast<std::byte*>(stacked[i].data()) + row * item;  // NOLINT
            parts_.push_back({base, item});
        }
    }
    next_ = 0;
    written_ = 0;
    payload_ = spec.payload_bytes();
}

void Gather::advance(std::size_t bytes) noexcept {
    written_ += bytes;
    while (bytes > 0) {
        iovec& part = parts_[next_];
        const std::size_t step = std::min(bytes, part.iov_len);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
        part.iov_len -= step;
        bytes -= step;
        if (part.iov_len == 0) ++next_;
    }
}

void Gather::copy_rest_of_row(OutBuffer& out) const {
    std::uint64_t rest = rows_begun() * payload_ - written_;
    out.reserve(rest);
    for (std::size_t i = next_; rest > 0; ++i) {
        out.append({static_cast<const std::byte*>(parts_[i].iov_base), parts_[i].iov_len});
        rest -= parts_[i].iov_len;  // a row ends where a part ends
    }
}

void append_row(OutBuffer& out, const SampleSpec& spec, std::span<const ArrayBytes> stacked,
                std::size_t row) {
    for (std::size_t i = 0; i < stacked.size(); ++i) {
        const std::size_t item = spec.array_bytes(i);
        if (item > 0) out.append(stacked[i].subspan(row * item, item));
    }
}

}  // namespace rondo::detail
