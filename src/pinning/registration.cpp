// SPDX-License-Identifier: Apache-2.0
#include "pinning/registration.hpp"

#include "pinning/error_codes.hpp"
#include "ring/layout.hpp"
#include <rondo/detail/log.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace rondo::detail {

std::uint64_t lock_part_bytes(const LockRegion& region, std::uint64_t limit, std::uint64_t page) {
    if (region.bytes <= limit || region.stride == 0) return region.bytes;
    const std::uint64_t pages_of_stride = region.stride / std::gcd(region.stride, page);
    if (pages_of_stride > region.bytes / page) return region.bytes;  // no inner edge is a page's
    const std::uint64_t step = pages_of_stride * page;
    return std::min(std::max(limit / step, std::uint64_t{1}) * step, region.bytes);
}

tl::expected<LockedRegions, LockFailure> LockedRegions::create(std::shared_ptr<PinApi> api,
                                                               int device,
                                                               std::span<const LockRegion> regions,
                                                               std::uint64_t limit) {
    LockedRegions locked{std::move(api), device};
    for (std::size_t i = 0; i < regions.size(); ++i) {
        const CallResult result = locked.lock(regions[i], limit);
        if (result.ok()) continue;
        // Here, not in the destructor: this thread has adopted the device, and the error that is
        // cleared is the last one.
        locked.unlock_all();
        locked.api_->clear_last_error();
        return tl::unexpected{LockFailure{result, i}};
    }
    return locked;
}

LockedRegions::LockedRegions(std::shared_ptr<PinApi> api, int device) noexcept
    : api_{std::move(api)}, device_{device} {}

LockedRegions::LockedRegions(LockedRegions&& other) noexcept
    : api_{std::move(other.api_)},
      device_{other.device_},
      guard_{other.guard_},
      locked_{std::exchange(other.locked_, {})},
      bytes_{std::exchange(other.bytes_, 0)} {}

LockedRegions& LockedRegions::operator=(LockedRegions&& other) noexcept {
    LockedRegions taken{std::move(other)};
    std::swap(api_, taken.api_);
    std::swap(device_, taken.device_);
    std::swap(guard_, taken.guard_);
    std::swap(locked_, taken.locked_);
    std::swap(bytes_, taken.bytes_);
    return *this;  // `taken` unlocks what was here before
}

LockedRegions::~LockedRegions() {
    release();
}

CallResult LockedRegions::lock(const LockRegion& region, std::uint64_t limit) {
    const std::uint64_t part = lock_part_bytes(region, limit, page_size());
    for (std::uint64_t at = 0; at < region.bytes; at += part) {
        const CallResult result = lock_part(region.data + at, std::min(part, region.bytes - at));
        if (!result.ok()) return result;
    }
    return {};
}

CallResult LockedRegions::lock_part(std::byte* data, std::uint64_t bytes) {
    locked_.reserve(locked_.size() + 1);  // so that no exception can lose a registration
    const CallResult locked = api_->lock(data, bytes);
    if (!locked.ok()) return locked;
    locked_.push_back(data);
    bytes_ += bytes;
    const CallResult first = api_->verify(data);
    return first.ok() ? api_->verify(data + bytes - 1) : first;
}

void LockedRegions::unlock_all() noexcept {
    for (; !locked_.empty(); locked_.pop_back()) {
        const CallResult result = api_->unlock(locked_.back());
        if (result.ok() || means_unloading(result.code)) continue;
        log_warning("page-locked memory could not be unlocked: " + describe(*api_, result) +
                    (result.code == cuda_error::not_registered ||
                             result.code == cuda_error::context_destroyed
                         ? ". Somebody has reset the device, and with it every registration."
                         : ""));
        api_->clear_last_error();
    }
}

void LockedRegions::release() noexcept {
    if (locked_.empty()) return;
    if (guard_.forked()) {
        log_warning(
            "a forked child destroys a server whose memory its parent page-locked. Nothing is "
            "unlocked: the registrations are the parent's, and the child never had the memory.");
        locked_.clear();
        return;
    }
    const CallResult adopted = api_->with_device(device_, [this] { unlock_all(); });
    if (!locked_.empty() && !means_unloading(adopted.code)) {
        log_warning("page-locked memory could not be unlocked: " + describe(*api_, adopted));
    }
    locked_.clear();
}

}  // namespace rondo::detail
