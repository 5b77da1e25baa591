// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/fork_guard.hpp"
#include "pinning/pin_api.hpp"

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rondo::detail {

/// Memory to be page-locked. Empty ones are skipped.
struct LockRegion {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;   ///< a multiple of the page
    std::uint64_t stride = 0;  ///< from one buffer to the next: no buffer is locked in two parts
};

/// Which call failed for which region.
struct LockFailure {
    CallResult result;
    std::size_t region = 0;  ///< index among those handed over
};

/// Registers at most so much at once; more in one call was seen to fail.
inline constexpr std::uint64_t max_lock_bytes = std::uint64_t{64} << 30;

/// Where a region is cut: every part ends on a buffer's edge that is also a page's, and has at most
/// `limit` bytes if a single buffer allows that.
[[nodiscard]] std::uint64_t lock_part_bytes(const LockRegion& region, std::uint64_t limit,
                                            std::uint64_t page);

/// Page-locked regions: owns their registrations, not their memory, which must outlive it.
///
/// Move-only. Destruction unlocks, in reverse, on any thread; what the driver then has to say is
/// logged, unless it is unloading. In a forked child it unlocks nothing, and logs that.
class LockedRegions {
public:
    /// Locks and verifies every region, on a thread whose device is adopted. All or nothing: on a
    /// failure what was locked is unlocked again, and the runtime's last error cleared.
    [[nodiscard]] static tl::expected<LockedRegions, LockFailure> create(
        std::shared_ptr<PinApi> api, int device, std::span<const LockRegion> regions,
        std::uint64_t limit = max_lock_bytes);

    LockedRegions(LockedRegions&& other) noexcept;
    LockedRegions& operator=(LockedRegions&& other) noexcept;
    LockedRegions(const LockedRegions&) = delete;
    LockedRegions& operator=(const LockedRegions&) = delete;
    ~LockedRegions();

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

private:
    LockedRegions(std::shared_ptr<PinApi> api, int device) noexcept;

    [[nodiscard]] CallResult lock(const LockRegion& region, std::uint64_t limit);
    [[nodiscard]] CallResult lock_part(std::byte* data, std::uint64_t bytes);
    void unlock_all() noexcept;
    void release() noexcept;

    std::shared_ptr<PinApi> api_;
    int device_;
    ForkGuard guard_;
    std::vector<std::byte*> locked_;
    std::uint64_t bytes_ = 0;
};

}  // namespace rondo::detail
