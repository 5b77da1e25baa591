// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/fork_guard.hpp"
#include "ring/layout.hpp"
#include <rondo/pin_error.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rondo::detail {

struct RingMemoryOptions {
    bool huge_pages = true;  ///< ask for transparent huge pages in regions of 2 MiB or more
    bool prefault = false;   ///< fault every page in before `create` returns

    /// The memory is going to be page-locked: fault it in, and let no child have it. A forked child
    /// that wrote to a page first would leave the parent with a copy that the device knows nothing
    /// of; so it finds zeros there, or, before Linux 4.14, nothing at all.
    bool pinned = false;
};

/// The memory of a ring: one anonymous, zero-filled mapping of whole pages per non-empty array.
///
/// Owns the mappings, and what must end before they do: who may write or read which slot when is
/// the store's business, and page-locking is pinning's. Move-only; a moved-from ring has no arrays
/// and no regions. Moving keeps every address. Thread-safety: the accessors may be called from any
/// thread; the bytes are shared memory, ordered by the store.
class Ring {
public:
    /// A mapping, exactly as obtained from the kernel: what pinning registers.
    struct Region {
        std::byte* data;
        std::uint64_t bytes;
        std::size_t array;  ///< index in the spec
    };

    /// What the accessors and the copy helpers need of one array, in half a cache line.
    struct Array {
        std::byte* base;  ///< null for an array of 0 bytes
        std::uint64_t stride;
        std::uint64_t item_bytes;
        std::uint64_t payload_offset;
    };

    /// Compares the size with what the machine and its cgroup can give, then maps.
    /// Errors: `RingMemory`, and nothing stays mapped.
    [[nodiscard]] static tl::expected<Ring, PinError> create(RingLayout layout,
                                                             RingMemoryOptions options = {});

    Ring(Ring&& other) noexcept;
    Ring& operator=(Ring&& other) noexcept;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring();

    /// The first byte of one sample of one array; null for an array of 0 bytes.
    /// Precondition: every index is within the layout.
    [[nodiscard]] std::byte* slot(std::size_t array, std::uint64_t buffer,
                                  std::uint64_t index) const noexcept {
        const Array& a = arrays_[array];
        return a.base + buffer * a.stride + index * a.item_bytes;
    }

    /// The first `n_samples` samples of one array in one buffer, contiguous.
    /// Precondition: every index is within the layout, n_samples <= batch_size.
    [[nodiscard]] std::span<std::byte> batch(std::size_t array, std::uint64_t buffer,
                                             std::uint64_t n_samples) const noexcept {
        const Array& a = arrays_[array];
        return {a.base + buffer * a.stride, static_cast<std::size_t>(n_samples * a.item_bytes)};
    }

    /// One per array of the spec, in its order.
    [[nodiscard]] std::span<const Array> arrays() const noexcept { return arrays_; }

    /// One per non-empty array, in spec order.
    [[nodiscard]] std::span<const Region> regions() const noexcept { return regions_; }

    [[nodiscard]] const RingLayout& layout() const noexcept { return layout_; }

    /// Destroys `attachment` right before the memory is unmapped, on whatever thread that happens.
    void keep_until_unmapped(std::shared_ptr<void> attachment) noexcept {
        attachment_ = std::move(attachment);
    }

    /// True in a forked child of the process that made this ring `pinned`: it has the addresses,
    /// but not the memory.
    [[nodiscard]] bool lost_by_fork() const noexcept { return pinned_ && guard_.forked(); }

private:
    explicit Ring(RingLayout layout) noexcept : layout_{std::move(layout)} {}

    /// Maps every region; stops at the first failure, which the destructor cleans up.
    tl::expected<void, PinError> map(const RingMemoryOptions& options);

    RingLayout layout_;
    std::vector<Array> arrays_;
    std::vector<Region> regions_;
    std::shared_ptr<void> attachment_;
    ForkGuard guard_;
    bool pinned_ = false;
};

}  // namespace rondo::detail
