// SPDX-License-Identifier: Apache-2.0
#include "transport/side_buffers.hpp"

#include <rondo/detail/log.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace rondo::detail {

SideBuffer::SideBuffer(std::shared_ptr<SideBuffers> pool)
    : pool_{std::move(pool)},
      memory_{std::make_unique_for_overwrite<std::byte[]>(  // NOLINT(modernize-avoid-c-arrays)
          pool_->sample_bytes())} {}

SideBuffer::SideBuffer(SideBuffer&& other) noexcept
    : pool_{std::move(other.pool_)},
      memory_{std::move(other.memory_)},
      filled_{std::exchange(other.filled_, 0)} {}

SideBuffer& SideBuffer::operator=(SideBuffer&& other) noexcept {
    if (this != &other) {
        SideBuffer old{std::move(*this)};
        pool_ = std::move(other.pool_);
        memory_ = std::move(other.memory_);
        filled_ = std::exchange(other.filled_, 0);
    }
    return *this;
}

SideBuffer::~SideBuffer() {
    memory_.reset();
    if (pool_ != nullptr) pool_->give_back();
}

std::span<std::byte> SideBuffer::room() noexcept {
    return {memory_.get() + filled_, static_cast<std::size_t>(pool_->sample_bytes()) - filled_};
}

SideBuffers::SideBuffers(std::uint64_t limit_bytes, std::uint64_t sample_bytes) noexcept
    : sample_bytes_{sample_bytes}, most_{std::max<std::uint64_t>(1, limit_bytes / sample_bytes)} {}

std::uint64_t SideBuffers::bytes_out() const noexcept {
    const std::lock_guard lock{mutex_};
    return out_ * sample_bytes_;
}

void SideBuffers::close() noexcept {
    {
        const std::lock_guard lock{mutex_};
        closed_ = true;
    }
    pass_on();
}

std::optional<SideBuffer> SideBuffers::Attempt::operator()() const {
    {
        const std::lock_guard lock{pool->mutex_};
        if (pool->closed_) return SideBuffer{};
        if (pool->out_ >= pool->most_) return std::nullopt;
        ++pool->out_;
    }
    try {
        return SideBuffer{pool};
    } catch (const std::bad_alloc&) {
        // Costs the connection that asked, not the I/O thread on which this may be resumed.
        pool->give_back();
        log_warning("no memory for a part of a sample: its connection is dropped");
        return SideBuffer{};
    }
}

bool SideBuffers::enqueue(Waiter& waiter, Place place) noexcept {
    const std::lock_guard lock{mutex_};
    if (closed_ || out_ < most_) return false;
    waiting_.link(waiter, place);
    return true;
}

bool SideBuffers::cancel(Waiter& waiter) noexcept {
    const std::lock_guard lock{mutex_};
    return waiting_.unlink(waiter);
}

// Wakes as many as there are buffers to give now; everybody once closed.
void SideBuffers::pass_on() noexcept {
    std::unique_lock lock{mutex_};
    auto taken = waiting_.take(closed_ ? waiting_.size() : most_ - out_);
    lock.unlock();
    taken.wake_all();
}

void SideBuffers::give_back() noexcept {
    {
        const std::lock_guard lock{mutex_};
        --out_;
    }
    pass_on();
}

}  // namespace rondo::detail
