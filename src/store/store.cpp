// SPDX-License-Identifier: Apache-2.0
#include "store/store.hpp"

#include <rondo/detail/assert.hpp>

#include <algorithm>
#include <utility>

namespace rondo::detail {

Store::Store(Ring ring, bool deliver_short_batch)
    : ring_{std::move(ring)},
      batch_size_{ring_.layout().batch_size()},
      num_buffers_{ring_.layout().num_buffers()},
      deliver_short_batch_{deliver_short_batch},
      buffers_{std::make_unique<Buffer[]>(num_buffers_)} {  // NOLINT(modernize-avoid-c-arrays)
    for (std::uint64_t batch = 0; batch < num_buffers_; ++batch) {
        buffers_[batch].open_batch.store(batch, std::memory_order_relaxed);
    }
}

Store::~Store() {
    // Waits hold a reference, so nobody can be left.
    RONDO_ASSERT(producers_.empty() && consumers_.empty(), "a store dies after its last waiter");
}

tl::expected<Reservation, ReserveRefusal> Store::try_reserve(std::uint64_t wanted) noexcept {
    // order: relaxed. The value is only a guess; the CAS below decides.
    std::uint64_t position = write_cursor_.load(std::memory_order_relaxed);
    for (;;) {
        if (is_closed(position)) return tl::unexpected{ReserveRefusal::closed};
        const std::uint64_t batch = position / batch_size_;
        const std::uint64_t slot = position % batch_size_;
        Buffer& buffer = buffer_of(batch);
        // order: acquire, pairs with release(); the consumer's reads of the buffer come before our
        // writes to it, and `committed` is 0 again.
        const std::uint64_t open = buffer.open_batch.load(std::memory_order_acquire);
        if (open < batch) return tl::unexpected{ReserveRefusal::full};
        if (open > batch) {
            recorder_.cursor_was_stale();
            position = write_cursor_.load(std::memory_order_relaxed);
            continue;
        }
        if (slot == 0) return reserve_first(position, wanted);
        const std::uint64_t count = std::min(wanted, batch_size_ - slot);
        // order: relaxed. The cursor only grows, so success proves that it never left `position`
        // since the load: the batch is not fully reserved, hence not complete, hence still open.
        if (write_cursor_.compare_exchange_weak(
                position, position + count, std::memory_order_relaxed, std::memory_order_relaxed)) {
            recorder_.cas_succeeded();
            return Reservation{.buffer = batch % num_buffers_, .first_slot = slot, .count = count};
        }
        recorder_.cas_failed();
    }
}

// Looks at the clock once per batch, before the CAS: so before every other reservation in the
// batch, and before every commit. Out of line, or each reservation would save registers for that
// call.
tl::expected<Reservation, ReserveRefusal> Store::reserve_first(std::uint64_t position,
                                                               std::uint64_t wanted) noexcept {
    const auto opened = Clock::now();
    const std::uint64_t batch = position / batch_size_;
    const std::uint64_t count = std::min(wanted, batch_size_);
    // order: relaxed, as in try_reserve().
    if (!write_cursor_.compare_exchange_strong(
            position, position + count, std::memory_order_relaxed, std::memory_order_relaxed)) {
        recorder_.cas_failed();
        return try_reserve(wanted);
    }
    recorder_.cas_succeeded();
    // order: relaxed. Our commit publishes it, and the batch is not complete without that.
    buffer_of(batch).opened.store(opened, std::memory_order_relaxed);
    return Reservation{.buffer = batch % num_buffers_, .first_slot = 0, .count = count};
}

void Store::commit(const Reservation& filled) noexcept {
    Buffer& buffer = buffers_[filled.buffer];
    // order: acq_rel, pairs with itself and with try_lease(); releases our bytes, and acquires
    // everybody's, so that whoever completes the batch publishes all of it. The acquire half also
    // keeps the load of the cursor below behind it (see close_input).
    const std::uint64_t before =
        buffer.committed.fetch_add(filled.count, std::memory_order_acq_rel);
    const bool complete = before + filled.count == batch_size_;
    // order: relaxed. Either close_input()'s read-modify-write of `committed` came before our add,
    // then the acquire above makes its closed bit visible here; or it came after, then it saw it.
    const bool closed = is_closed(write_cursor_.load(std::memory_order_relaxed));
    if (complete || closed) wake_consumers();
}

tl::expected<Leased, LeaseRefusal> Store::try_lease() noexcept {
    std::unique_lock lock{mutex_};
    const std::uint64_t cursor = write_cursor_.load(std::memory_order_relaxed);
    const std::uint64_t count = samples_in(read_batch_, cursor);
    if (count == 0) {
        return tl::unexpected{ended_at(cursor) ? LeaseRefusal::closed : LeaseRefusal::nothing_yet};
    }
    const std::uint64_t batch = read_batch_++;
    ready_until_ = std::max(ready_until_, read_batch_);
    Buffer& buffer = buffer_of(batch);
    buffer.leased_by = std::this_thread::get_id();
    last_batch_age_ = Clock::now() - buffer.opened.load(std::memory_order_relaxed);
    ++leased_;
    const Leased leased{.batch = batch,
                        .buffer = batch % num_buffers_,
                        .count = count,
                        .counts = counts_at(cursor)};
    // The read position may have come to a buffer that somebody leases while he waits for it.
    if (next_holder() != Holder::nobody && !consumers_.empty()) {
        const std::size_t waiting = consumers_.size();
        auto taken = consumers_.take_marked();
        wakes_ += waiting - consumers_.size();
        lock.unlock();
        taken.wake_all();
    }
    return leased;
}

void Store::release(std::uint64_t batch) noexcept {
    Buffer& buffer = buffer_of(batch);
    // order: relaxed, both published by the store of open_batch: nobody adds before having seen it.
    buffer.committed.store(0, std::memory_order_relaxed);
    buffer.opened.store({}, std::memory_order_relaxed);
    // order: release, pairs with try_reserve(); our reads of the batch come before its next writes.
    buffer.open_batch.store(batch + num_buffers_, std::memory_order_release);
    std::unique_lock lock{mutex_};
    ++released_;
    wake_producers(std::move(lock));
}

void Store::close_input() noexcept {
    // order: acq_rel. The value before is the end of the stream: no CAS can succeed any more.
    const std::uint64_t end = write_cursor_.fetch_or(closed_bit, std::memory_order_acq_rel);
    if (is_closed(end)) return;
    // A commit adds to `committed`, then looks for the closed bit; we set the bit, then look at
    // `committed`. With two loads both could miss the other (store buffering). This is a
    // read-modify-write, so one of the two comes first in the order of `committed`.
    // order: acq_rel, pairs with commit().
    if (end % batch_size_ != 0) {
        buffer_of(end / batch_size_).committed.fetch_add(0, std::memory_order_acq_rel);
    }
    wake_producers(std::unique_lock{mutex_});
    wake_consumers();
}

std::uint64_t Store::free_slots() const noexcept {
    const std::uint64_t cursor = write_cursor_.load(std::memory_order_relaxed);
    return is_closed(cursor) ? 0 : slots_free_at(cursor);
}

bool Store::refuses(LeasedNext rule) const noexcept {
    const std::lock_guard lock{mutex_};
    return refuses_locked(rule);
}

bool Store::refuses_locked(LeasedNext rule) const noexcept {
    switch (rule) {
        case LeasedNext::wait:
            return false;
        case LeasedNext::refuse_own:
            return next_holder() == Holder::this_thread;
        case LeasedNext::refuse:
            return next_holder() != Holder::nobody;
    }
    return false;
}

bool Store::must_wait(LeasedNext rule) const noexcept {
    const std::lock_guard lock{mutex_};
    return must_wait_locked(rule);
}

bool Store::must_wait_locked(LeasedNext rule) const noexcept {
    const std::uint64_t cursor = write_cursor_.load(std::memory_order_relaxed);
    return !ended_at(cursor) && samples_in(read_batch_, cursor) == 0 && !refuses_locked(rule);
}

// Not "is every buffer leased": a consumer that keeps one batch while it, or another, takes and
// releases those behind it comes round to its own buffer while the others are free.
Holder Store::next_holder() const noexcept {
    const Buffer& next = buffer_of(read_batch_);
    // Open for an earlier batch: that one was leased, since the read position is past it.
    if (next.open_batch.load(std::memory_order_acquire) == read_batch_) return Holder::nobody;
    return next.leased_by == std::this_thread::get_id() ? Holder::this_thread
                                                        : Holder::another_thread;
}

StoreCounts Store::counts() const noexcept {
    const std::lock_guard lock{mutex_};
    const std::uint64_t cursor = write_cursor_.load(std::memory_order_relaxed);
    StoreCounts counts = counts_at(cursor);
    const auto now = Clock::now();
    if (!producers_.empty()) counts.longest_producer_wait = now - producers_.oldest();
    if (!consumers_.empty()) counts.longest_consumer_wait = now - consumers_.oldest();
    const Buffer& next = buffer_of(read_batch_);
    if (next.open_batch.load(std::memory_order_acquire) == read_batch_ &&
        next.committed.load(std::memory_order_relaxed) > 0) {
        // Not set yet if others have overtaken whoever takes the first slot.
        const auto opened = next.opened.load(std::memory_order_relaxed);
        if (opened != Clock::time_point{} && opened < now) counts.oldest_sample_age = now - opened;
    }
    return counts;
}

// All but the times that would cost each lease another look at the clock.
StoreCounts Store::counts_at(std::uint64_t cursor) const noexcept {
    const std::uint64_t end = cursor & ~closed_bit;
    StoreCounts counts{
        .samples_reserved = end,
        .batches_leased = leased_,
        .batches_released = released_,
        .producer_waits = producer_waits_,
        .consumer_waits = consumer_waits_,
        .wakes = wakes_,
        .producers_waiting = producers_.size(),
        .consumers_waiting = consumers_.size(),
        .last_batch_age = last_batch_age_,
        .input_closed = is_closed(cursor),
    };
    if (batches_ready_at(cursor) > 0) {
        // The last one may be short: it ends where the stream does.
        counts.samples_ready =
            std::min(ready_until_ * batch_size_, end) - read_batch_ * batch_size_;
    }
    if (counts.input_closed && !deliver_short_batch_) {
        counts.samples_dropped_at_close = end % batch_size_;
    }
    return counts;
}

std::shared_ptr<WaitPoint> Store::room() noexcept {
    return {shared_from_this(), &room_};
}

std::shared_ptr<WaitPoint> Store::batches(LeasedNext rule) noexcept {
    Batches& point = rule == LeasedNext::wait         ? batches_
                     : rule == LeasedNext::refuse_own ? batches_but_own_
                                                      : batches_if_free_;
    return {shared_from_this(), &point};
}

std::uint64_t Store::slots_free_at(std::uint64_t cursor) const noexcept {
    const std::uint64_t first = cursor / batch_size_;
    std::uint64_t batch = first;
    // order: acquire, pairs with release(), as in try_reserve().
    while (batch < first + num_buffers_ &&
           buffer_of(batch).open_batch.load(std::memory_order_acquire) == batch) {
        ++batch;
    }
    return batch == first ? 0 : batch * batch_size_ - cursor;
}

// How many samples of `batch` can be leased now: all, none, or a short last batch.
std::uint64_t Store::samples_in(std::uint64_t batch, std::uint64_t cursor) const noexcept {
    const Buffer& buffer = buffer_of(batch);
    // Until the buffer is open for this batch, `committed` still counts for the one before it.
    // order: acquire, pairs with release().
    if (buffer.open_batch.load(std::memory_order_acquire) != batch) return 0;
    // order: acquire, pairs with commit(); publishes the samples.
    const std::uint64_t committed = buffer.committed.load(std::memory_order_acquire);
    if (committed == batch_size_) return batch_size_;
    const std::uint64_t end = cursor & ~closed_bit;
    const bool last = is_closed(cursor) && batch == end / batch_size_;
    return last && deliver_short_batch_ && committed == end % batch_size_ ? committed : 0;
}

std::uint64_t Store::batches_ready_at(std::uint64_t cursor) const noexcept {
    // Ends within num_buffers steps: no more batches are open at once.
    while (samples_in(ready_until_, cursor) > 0) ++ready_until_;
    return ready_until_ - read_batch_;
}

// True if nothing will ever be leased again: the input is closed, and the read position has passed
// every batch that will become ready.
bool Store::ended_at(std::uint64_t cursor) const noexcept {
    if (!is_closed(cursor)) return false;
    const std::uint64_t end = cursor & ~closed_bit;
    const bool short_batch = deliver_short_batch_ && end % batch_size_ != 0;
    return read_batch_ >= end / batch_size_ + (short_batch ? 1 : 0);
}

// Everybody if the input is closed, since all must see that; else as many as what is available
// *now* can serve. Never as many as the event at hand made possible: releases and completions come
// out of order, so one event can make room for several waiters, or for none.
void Store::wake_producers(std::unique_lock<std::mutex> lock, std::uint64_t at_most) noexcept {
    // Nobody waits: whoever comes later registers under the lock, and first looks at what is there.
    if (producers_.empty()) return;
    const std::uint64_t cursor = write_cursor_.load(std::memory_order_relaxed);
    wake(producers_, is_closed(cursor) ? everybody : std::min(at_most, slots_free_at(cursor)),
         std::move(lock));
}

void Store::wake_consumers() noexcept {
    std::unique_lock lock{mutex_};
    if (consumers_.empty()) return;  // as in wake_producers()
    const std::uint64_t cursor = write_cursor_.load(std::memory_order_relaxed);
    wake(consumers_, is_closed(cursor) ? everybody : batches_ready_at(cursor), std::move(lock));
}

void Store::wake(WaitList& list, std::uint64_t count, std::unique_lock<std::mutex> lock) noexcept {
    const std::size_t waiting = list.size();
    auto taken = list.take(count);
    wakes_ += waiting - list.size();
    lock.unlock();  // a wake posts to an executor: never under our lock
    taken.wake_all();
}

bool Store::Room::enqueue(Waiter& waiter, Place place) noexcept {
    const std::lock_guard lock{store_.mutex_};
    const std::uint64_t cursor = store_.write_cursor_.load(std::memory_order_relaxed);
    if (is_closed(cursor) || store_.slots_free_at(cursor) > 0) return false;
    store_.producers_.link(waiter, place);
    if (place == Place::back) ++store_.producer_waits_;
    return true;
}

bool Store::Room::cancel(Waiter& waiter) noexcept {
    const std::lock_guard lock{store_.mutex_};
    return store_.producers_.unlink(waiter);
}

void Store::Room::pass_on() noexcept {
    store_.wake_producers(std::unique_lock{store_.mutex_});
}

void Store::Room::pass_on_one() noexcept {
    store_.wake_producers(std::unique_lock{store_.mutex_}, 1);
}

bool Store::Batches::enqueue(Waiter& waiter, Place place) noexcept {
    const std::lock_guard lock{store_.mutex_};
    if (!store_.must_wait_locked(rule_)) return false;
    store_.consumers_.link(waiter, place, rule_ != LeasedNext::wait);
    if (place == Place::back) ++store_.consumer_waits_;
    return true;
}

bool Store::Batches::cancel(Waiter& waiter) noexcept {
    const std::lock_guard lock{store_.mutex_};
    return store_.consumers_.unlink(waiter);
}

void Store::Batches::pass_on() noexcept {
    store_.wake_consumers();
}

std::optional<WaitPoint::Warning> Store::Batches::warning() noexcept {
    if (!store_.refuses(LeasedNext::refuse)) return std::nullopt;
    return Warning{std::chrono::seconds{10},
                   "a sample() has waited for 10 s for a buffer that is still leased: release the "
                   "batch taken num_buffers batches ago, or raise num_buffers"};
}

}  // namespace rondo::detail
