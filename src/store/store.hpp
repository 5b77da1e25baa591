// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "metrics/recorder.hpp"
#include "ring/ring.hpp"
#include <rondo/detail/waiter.hpp>

#include <tl/expected.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace rondo::detail {

/// Slots that a producer took and must fill and commit, all within one batch.
struct Reservation {
    std::uint64_t buffer = 0;
    std::uint64_t first_slot = 0;
    std::uint64_t count = 0;
};

/// Why no slot could be reserved.
enum class ReserveRefusal : std::uint8_t { full, closed };

/// Who leases the buffer that the next batch lies in. While somebody does, no batch can come.
enum class Holder : std::uint8_t { nobody, another_thread, this_thread };

/// Whether a consumer waits for a buffer that somebody has to release first.
enum class LeasedNext : std::uint8_t {
    wait,
    refuse_own,  ///< not if the waiting thread leased it: it would wait for itself
    refuse,      ///< whoever leased it
};

/// What the store counts; read under its lock, so consistent in itself.
struct StoreCounts {
    std::uint64_t samples_reserved = 0;  ///< includes the few being written right now
    std::uint64_t samples_ready = 0;     ///< in complete batches that nobody leased yet
    std::uint64_t batches_leased = 0;    ///< since creation
    std::uint64_t batches_released = 0;
    std::uint64_t producer_waits = 0;  ///< times that a producer had to suspend
    std::uint64_t consumer_waits = 0;
    std::uint64_t wakes = 0;  ///< permits given
    std::uint64_t producers_waiting = 0;
    std::uint64_t consumers_waiting = 0;
    std::uint64_t samples_dropped_at_close = 0;  ///< the short last batch, if none asked for it
    std::chrono::steady_clock::duration longest_producer_wait{};
    std::chrono::steady_clock::duration longest_consumer_wait{};
    std::chrono::steady_clock::duration oldest_sample_age{};  ///< of what waits to be leased
    std::chrono::steady_clock::duration last_batch_age{};     ///< of what was leased last, then
    bool input_closed = false;
};

/// A consumer's hold on batch `batch`, which lies in buffer `batch % num_buffers`.
struct Leased {
    std::uint64_t batch = 0;
    std::uint64_t buffer = 0;
    std::uint64_t count = 0;  ///< samples; below batch_size only for a short last batch
    StoreCounts counts{};     ///< at the lease
};

/// Why no batch could be leased.
enum class LeaseRefusal : std::uint8_t { nothing_yet, closed };

/// The ring's protocol: producers reserve slots, fill and commit them; consumers lease complete
/// batches in order and release them in any order.
///
/// Positions are absolute 64-bit sample counters that only grow. Batch `b` is the samples from
/// `b * batch_size`, in buffer `b % num_buffers`. The hot path is one CAS (`try_reserve`) and one
/// add (`commit`); everything that happens once per batch takes the mutex. docs/design/store.md
/// argues each memory order and each wake-up; docs/design/model/ checks the protocol.
///
/// Thread-safety: every member may be called from any thread. Owned by shared_ptr: waits, leases
/// and transports keep it alive.
class Store : public std::enable_shared_from_this<Store> {
public:
    Store(Ring ring, bool deliver_short_batch);
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    ~Store();

    [[nodiscard]] Ring& ring() noexcept { return ring_; }
    [[nodiscard]] const Ring& ring() const noexcept { return ring_; }
    [[nodiscard]] std::uint64_t batch_size() const noexcept { return batch_size_; }
    [[nodiscard]] std::uint64_t num_buffers() const noexcept { return num_buffers_; }

    /// Takes 1 to `wanted` slots, never beyond the end of the batch that is being filled. Reserve
    /// only what can be filled at once: a batch waits for each of its slots.
    /// Precondition: wanted > 0.
    [[nodiscard]] tl::expected<Reservation, ReserveRefusal> try_reserve(
        std::uint64_t wanted) noexcept;

    /// Publishes filled slots. Precondition: `filled` came from `try_reserve` and is committed
    /// once.
    void commit(const Reservation& filled) noexcept;

    /// The next batch, if it is complete. After `close_input`: what was committed is still leased,
    /// a short last batch only if the store was made to deliver it, then `closed`.
    [[nodiscard]] tl::expected<Leased, LeaseRefusal> try_lease() noexcept;

    /// Gives a batch's buffer back. Precondition: `batch` is leased and released once.
    void release(std::uint64_t batch) noexcept;

    /// Refuses every later reservation; everybody who waits is woken. Idempotent.
    void close_input() noexcept;

    /// Slots that can be reserved now without waiting. May be stale at once.
    [[nodiscard]] std::uint64_t free_slots() const noexcept;

    /// True once `close_input` was called. May be stale if false.
    [[nodiscard]] bool was_closed() const noexcept {
        return is_closed(write_cursor_.load(std::memory_order_relaxed));
    }

    /// Whether a consumer that follows `rule` must not wait now. May be stale at once if false; the
    /// wait point of the same rule sees to it then.
    [[nodiscard]] bool refuses(LeasedNext rule) const noexcept;

    /// Whether such a consumer would have to wait now. May be stale at once; the wait point of the
    /// same rule sees to it then.
    [[nodiscard]] bool must_wait(LeasedNext rule) const noexcept;

    [[nodiscard]] StoreCounts counts() const noexcept;

    [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }

    /// Waits for room (or closing), and for a batch (or the end, or a reason to refuse). They keep
    /// the store alive.
    [[nodiscard]] std::shared_ptr<WaitPoint> room() noexcept;
    [[nodiscard]] std::shared_ptr<WaitPoint> batches(LeasedNext rule = LeasedNext::wait) noexcept;

private:
    // The cursor's top bit says that the input is closed; the rest is the next free position.
    static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 63;

    static constexpr bool is_closed(std::uint64_t cursor) noexcept {
        return (cursor & closed_bit) != 0;
    }

    using Clock = std::chrono::steady_clock;

    static constexpr std::uint64_t everybody = ~std::uint64_t{0};
    static constexpr std::size_t cache_line = 64;

    // One line for what producers read, one for what they add to, so that a commit does not take
    // away the line that the next reserve loads.
    struct alignas(cache_line) Buffer {
        std::atomic<std::uint64_t> open_batch{0};
        // When the first slot was about to be reserved: for the age of the batch. A bound of its
        // oldest commit, which a time taken at the commit of that slot is not: others overtake it.
        std::atomic<Clock::time_point> opened{};
        std::thread::id leased_by{};  // guarded by mutex_
        alignas(cache_line) std::atomic<std::uint64_t> committed{0};
    };
    static_assert(sizeof(Buffer) == 2 * cache_line, "two lines: one read, one added to");

    class Room final : public WaitPoint {
    public:
        explicit Room(Store& store) noexcept : store_{store} {}
        bool enqueue(Waiter& waiter, Place place) noexcept override;
        bool cancel(Waiter& waiter) noexcept override;
        void pass_on() noexcept override;
        void pass_on_one() noexcept override;

    private:
        Store& store_;
    };

    class Batches final : public WaitPoint {
    public:
        Batches(Store& store, LeasedNext rule) noexcept : store_{store}, rule_{rule} {}
        bool enqueue(Waiter& waiter, Place place) noexcept override;
        bool cancel(Waiter& waiter) noexcept override;
        void pass_on() noexcept override;
        std::optional<Warning> warning() noexcept override;

    private:
        Store& store_;
        const LeasedNext rule_;
    };

    [[nodiscard]] Buffer& buffer_of(std::uint64_t batch) const noexcept {
        return buffers_[batch % num_buffers_];
    }

    // The reservation that opens a batch. Precondition: the batch at `position` is open.
    [[nodiscard, gnu::noinline]] tl::expected<Reservation, ReserveRefusal> reserve_first(
        std::uint64_t position, std::uint64_t wanted) noexcept;

    // What can be had now, given a cursor loaded under the lock. It may be stale: then the buffer
    // that it points to is open for a later batch, and whoever released that has yet to take the
    // lock and to compute anew; had it been there, the lock would have shown us its cursor.
    [[nodiscard]] std::uint64_t slots_free_at(std::uint64_t cursor) const noexcept;
    [[nodiscard]] std::uint64_t samples_in(std::uint64_t batch,
                                           std::uint64_t cursor) const noexcept;
    [[nodiscard]] std::uint64_t batches_ready_at(std::uint64_t cursor) const noexcept;
    [[nodiscard]] bool ended_at(std::uint64_t cursor) const noexcept;

    [[nodiscard]] Holder next_holder() const noexcept;
    [[nodiscard]] bool refuses_locked(LeasedNext rule) const noexcept;
    [[nodiscard]] bool must_wait_locked(LeasedNext rule) const noexcept;
    [[nodiscard]] StoreCounts counts_at(std::uint64_t cursor) const noexcept;

    void wake_producers(std::unique_lock<std::mutex> lock,
                        std::uint64_t at_most = everybody) noexcept;
    void wake_consumers() noexcept;
    void wake(WaitList& list, std::uint64_t count, std::unique_lock<std::mutex> lock) noexcept;

    Ring ring_;
    const std::uint64_t batch_size_;
    const std::uint64_t num_buffers_;
    const bool deliver_short_batch_;
    [[no_unique_address]] Recorder recorder_;
    std::unique_ptr<Buffer[]> buffers_;  // NOLINT(modernize-avoid-c-arrays): not movable

    alignas(cache_line) std::atomic<std::uint64_t> write_cursor_{0};

    alignas(cache_line) mutable std::mutex mutex_;
    // All below: guarded by mutex_.
    std::uint64_t read_batch_ = 0;
    // Each batch from read_batch_ to before this one is known to be complete: it stays so until it
    // is leased. Spares every lease a walk over the buffers.
    mutable std::uint64_t ready_until_ = 0;
    std::uint64_t leased_ = 0;
    std::uint64_t released_ = 0;
    std::uint64_t producer_waits_ = 0;
    std::uint64_t consumer_waits_ = 0;
    std::uint64_t wakes_ = 0;
    Clock::duration last_batch_age_{};
    WaitList producers_;
    WaitList consumers_;

    Room room_{*this};
    Batches batches_{*this, LeasedNext::wait};
    Batches batches_but_own_{*this, LeasedNext::refuse_own};
    Batches batches_if_free_{*this, LeasedNext::refuse};
};

}  // namespace rondo::detail
