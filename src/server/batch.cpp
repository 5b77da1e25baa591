// SPDX-License-Identifier: Apache-2.0
#include "store/store.hpp"
#include <rondo/batch.hpp>
#include <rondo/detail/assert.hpp>

#include <utility>

namespace rondo {

Batch::Batch(std::shared_ptr<detail::Store> store, SampleSpec spec, const detail::Leased& leased,
             const SampleInfo& info) noexcept
    : store_{std::move(store)},
      spec_{std::move(spec)},
      info_{info},
      index_{leased.batch},
      buffer_{leased.buffer},
      size_{static_cast<std::size_t>(leased.count)} {}

Batch::Batch(Batch&& other) noexcept = default;

Batch& Batch::operator=(Batch&& other) noexcept {
    if (this != &other) {
        release();
        store_ = std::move(other.store_);
        spec_ = std::move(other.spec_);
        info_ = other.info_;
        index_ = other.index_;
        buffer_ = other.buffer_;
        size_ = other.size_;
    }
    return *this;
}

Batch::~Batch() {
    release();
}

void Batch::release() noexcept {
    if (const auto store = std::exchange(store_, nullptr)) store->release(index_);
}

std::size_t Batch::index_of(std::string_view path) const {
    const auto index = spec_.find(path);
    RONDO_ASSERT(index.has_value(), "Batch::array: the spec must have an array of this path");
    return *index;
}

ArrayBytes Batch::checked_bytes(std::size_t index, const dtype* wanted) const {
    RONDO_ASSERT(store_ != nullptr, "Batch::array: the batch must not have been released");
    RONDO_ASSERT(index < spec_.size(), "Batch::array: the index must be below spec().size()");
    RONDO_ASSERT(wanted == nullptr || spec_.arrays()[index].type == *wanted,
                 "Batch::array<T>: T must be the array's dtype (or std::byte)");
    return store_->ring().batch(index, buffer_, size_);
}

}  // namespace rondo
