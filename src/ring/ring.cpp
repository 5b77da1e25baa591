// SPDX-License-Identifier: Apache-2.0
#include "ring/ring.hpp"

#include "ring/memory_limits.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <thread>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // Linux 4.14
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older headers lack the name
#endif

namespace rondo::detail {
namespace {

constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

/// What one thread faults in at a time: far above the cost of a system call, small enough to share.
constexpr std::uint64_t prefault_chunk = std::uint64_t{32} << 20;

/// More threads than this only queue for the kernel's page allocator.
constexpr std::uint64_t max_prefault_threads = 16;

/// Faults in `bytes` zero-filled bytes that nobody uses yet. Returns 0 or an errno.
int populate(std::byte* data, std::uint64_t bytes) noexcept {
    if (::madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno != EINVAL) return errno;
    // A kernel before 5.14 does not know the advice.
    for (std::uint64_t at = 0; at < bytes; at += page_size()) {
        *static_cast<volatile std::byte*>(data + at) = std::byte{0};
    }
    return 0;
}

struct Prefaulted {
    std::uint64_t bytes;
    int error;  ///< an errno; 0: all of it
};

/// Faults every page in, on several threads when there is much to do; stops at the first failure.
Prefaulted prefault(std::span<const Ring::Region> regions) {
    std::vector<std::span<std::byte>> chunks;
    for (const Ring::Region& region : regions) {
        for (std::uint64_t at = 0; at < region.bytes; at += prefault_chunk) {
            chunks.emplace_back(region.data + at, std::min(prefault_chunk, region.bytes - at));
        }
    }
    // order: relaxed throughout; the joins publish the pages and the results.
    std::atomic<std::size_t> next = 0;
    std::atomic<std::uint64_t> bytes = 0;
    std::atomic<int> error = 0;
    const auto work = [&]() noexcept {
        while (error.load(std::memory_order_relaxed) == 0) {
            const auto mine = next.fetch_add(1, std::memory_order_relaxed);
            if (mine >= chunks.size()) return;
            const int result = populate(chunks[mine].data(), chunks[mine].size());
            if (result == 0) {
                bytes.fetch_add(chunks[mine].size(), std::memory_order_relaxed);
            } else {
                error.store(result, std::memory_order_relaxed);
            }
        }
    };
    {
        std::vector<std::jthread> helpers;
        const auto threads = std::min<std::uint64_t>(
            {std::thread::hardware_concurrency(), max_prefault_threads, chunks.size()});
        try {
            while (helpers.size() + 1 < threads) helpers.emplace_back(work);
        } catch (const std::system_error&) {  // no more threads to be had: those we have will do
        }
        work();
    }
    return {bytes.load(std::memory_order_relaxed), error.load(std::memory_order_relaxed)};
}

/// Keeps memory from forked children. No kernel that rondo meets refuses both.
void keep_from_children(void* memory, std::uint64_t bytes) noexcept {
    if (::madvise(memory, bytes, MADV_WIPEONFORK) == 0) return;
    (void)::madvise(memory, bytes, MADV_DONTFORK);
}

/// The limits left room, yet the kernel declined after `got` bytes.
PinError refused(const char* call, int error, std::uint64_t wanted, std::uint64_t got) {
    return PinError{RingMemory{
        .wanted = wanted,
        .available = got,
        .can_ever_fit = true,
        .limited_by = std::string{call} + ": " + std::generic_category().message(error)}};
}

}  // namespace

tl::expected<Ring, PinError> Ring::create(RingLayout layout, RingMemoryOptions options) {
    const auto wanted = layout.total_bytes();
    if (auto fits = check_memory(wanted, read_memory_limits()); !fits) {
        return tl::unexpected{std::move(fits).error()};
    }
    Ring ring{std::move(layout)};
    ring.pinned_ = options.pinned;
    if (auto mapped = ring.map(options); !mapped) {
        return tl::unexpected{std::move(mapped).error()};
    }
    if (options.prefault || options.pinned) {
        if (const auto done = prefault(ring.regions()); done.error != 0) {
            return tl::unexpected{
                refused("madvise(MADV_POPULATE_WRITE)", done.error, wanted, done.bytes)};
        }
    }
    return ring;
}

tl::expected<void, PinError> Ring::map(const RingMemoryOptions& options) {
    const auto arrays = layout_.arrays();
    arrays_.reserve(arrays.size());
    regions_.reserve(arrays.size());  // so that no exception can lose a mapping below
    std::uint64_t mapped = 0;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const ArrayLayout& array = arrays[i];
        std::byte* base = nullptr;
        if (array.region_bytes > 0) {
            void* const memory = ::mmap(nullptr, array.region_bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) {
                return tl::unexpected{refused("mmap", errno, layout_.total_bytes(), mapped)};
            }
            base = static_cast<std::byte*>(memory);
            regions_.push_back({base, array.region_bytes, i});
            mapped += array.region_bytes;
            if (options.pinned) keep_from_children(memory, array.region_bytes);
            if (options.huge_pages && array.region_bytes >= huge_page) {
                // A hint: a kernel without huge pages says no, and the ring works all the same.
                (void)::madvise(memory, array.region_bytes, MADV_HUGEPAGE);
            }
        }
        arrays_.push_back({base, array.stride, array.item_bytes, array.payload_offset});
    }
    return {};
}

Ring::Ring(Ring&& other) noexcept
    : layout_{std::move(other.layout_)},
      arrays_{std::exchange(other.arrays_, {})},
      regions_{std::exchange(other.regions_, {})},
      attachment_{std::exchange(other.attachment_, nullptr)},
      guard_{other.guard_},
      pinned_{other.pinned_} {}

Ring& Ring::operator=(Ring&& other) noexcept {
    Ring taken{std::move(other)};
    std::swap(layout_, taken.layout_);
    std::swap(arrays_, taken.arrays_);
    std::swap(regions_, taken.regions_);
    std::swap(attachment_, taken.attachment_);
    std::swap(guard_, taken.guard_);
    std::swap(pinned_, taken.pinned_);
    return *this;  // `taken` unmaps what was here before
}

Ring::~Ring() {
    attachment_.reset();
    // Where the kernel took the memory out of the child, something else may lie there by now.
    if (lost_by_fork()) return;
    for (const Region& region : regions_) ::munmap(region.data, region.bytes);
}

}  // namespace rondo::detail
