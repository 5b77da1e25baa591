// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/detail/async_retry.hpp>
#include <rondo/detail/waiter.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace rondo::detail {

class SideBuffers;

/// Memory for the part of one sample that arrived without its rest. Empty when default-made. Gives
/// its place back when destroyed.
class SideBuffer {
public:
    SideBuffer() = default;
    explicit SideBuffer(std::shared_ptr<SideBuffers> pool);
    SideBuffer(SideBuffer&& other) noexcept;
    SideBuffer& operator=(SideBuffer&& other) noexcept;
    SideBuffer(const SideBuffer&) = delete;
    SideBuffer& operator=(const SideBuffer&) = delete;
    ~SideBuffer();

    explicit operator bool() const noexcept { return pool_ != nullptr; }

    [[nodiscard]] std::span<const std::byte> filled() const noexcept {
        return {memory_.get(), filled_};
    }
    [[nodiscard]] std::span<std::byte> room() noexcept;
    void add(std::size_t bytes) noexcept { filled_ += bytes; }

private:
    std::shared_ptr<SideBuffers> pool_;
    std::unique_ptr<std::byte[]> memory_;  // NOLINT(modernize-avoid-c-arrays): left uninitialised
    std::size_t filled_ = 0;
};

/// How many side buffers a transport may have out at a time: as many samples as make
/// `limit_bytes`, and always one, so that a sample beyond the limit still passes. A connection that
/// gets none waits its turn, its bytes left in the kernel. Thread-safe.
class SideBuffers final : public WaitPoint {
public:
    SideBuffers(std::uint64_t limit_bytes, std::uint64_t sample_bytes) noexcept;

    [[nodiscard]] std::uint64_t sample_bytes() const noexcept { return sample_bytes_; }
    [[nodiscard]] std::uint64_t bytes_out() const noexcept;

    /// Ends every wait.
    void close() noexcept;

    /// The operation "get a side buffer"; an empty one means closed, or no memory.
    struct Attempt {
        using Result = SideBuffer;
        std::shared_ptr<SideBuffers> pool;
        std::optional<SideBuffer> operator()() const;
        SideBuffer give_up(WaitEnd) const noexcept { return {}; }
    };

    bool enqueue(Waiter& waiter, Place place) noexcept override;
    bool cancel(Waiter& waiter) noexcept override;
    void pass_on() noexcept override;

private:
    friend class SideBuffer;
    void give_back() noexcept;

    const std::uint64_t sample_bytes_;
    const std::uint64_t most_;
    mutable std::mutex mutex_;
    std::uint64_t out_ = 0;
    bool closed_ = false;
    WaitList waiting_;
};

}  // namespace rondo::detail
