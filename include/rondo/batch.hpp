// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/dtype.hpp>
#include <rondo/metrics.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace rondo {

namespace detail {
class ServerCore;
class Store;
struct Leased;
}  // namespace detail

/// A lease of one full batch, read in place: every array is a C-ordered block
/// `[size(), *shape]` in the ring's own memory.
///
/// Ownership: while the batch lives, nobody writes to its buffer and the memory stays mapped (and
/// page-locked), also after the server is gone. Destroying or releasing it gives the buffer back to
/// the producers; spans taken from it are invalid from then on. Move-only; a learner that needs
/// several owners puts it behind a shared_ptr.
/// Thread-safety: const members from any thread; release and destruction by one, any, thread.
class Batch {
public:
    Batch(Batch&& other) noexcept;
    Batch& operator=(Batch&& other) noexcept;
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch();

    /// Samples in it: the server's batch_size, or less for a short last batch.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Counts from 0 in the order in which batches were filled; each is leased exactly once.
    [[nodiscard]] std::uint64_t index() const noexcept { return index_; }

    [[nodiscard]] const SampleSpec& spec() const noexcept { return spec_; }

    /// The elements of the array `path`, `[size(), *shape]`. Begins on a 64-byte boundary.
    /// Precondition: not released; the spec has that array, and `T` is its dtype.
    template <typename T>
    [[nodiscard]] std::span<const T> array(std::string_view path) const {
        return array<T>(index_of(path));
    }
    template <typename T>
    [[nodiscard]] std::span<const T> array(std::size_t index) const {
        if constexpr (std::same_as<T, std::byte>) {
            return checked_bytes(index, nullptr);
        } else {
            constexpr dtype wanted = dtype::of<T>();
            const ArrayBytes bytes = checked_bytes(index, &wanted);
            return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
        }
    }

    /// The server's numbers when this batch was leased.
    [[nodiscard]] const SampleInfo& info() const noexcept { return info_; }

    /// Gives the buffer back now; idempotent. Wakes producers that wait for room.
    void release() noexcept;

    [[nodiscard]] bool released() const noexcept { return store_ == nullptr; }

private:
    friend class detail::ServerCore;
    Batch(std::shared_ptr<detail::Store> store, SampleSpec spec, const detail::Leased& leased,
          const SampleInfo& info) noexcept;

    [[nodiscard]] std::size_t index_of(std::string_view path) const;
    [[nodiscard]] ArrayBytes checked_bytes(std::size_t index, const dtype* wanted) const;

    std::shared_ptr<detail::Store> store_;
    SampleSpec spec_;
    SampleInfo info_;
    std::uint64_t index_;
    std::uint64_t buffer_;
    std::size_t size_;
};

}  // namespace rondo
