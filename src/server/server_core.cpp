// SPDX-License-Identifier: Apache-2.0
#include "server/server_core.hpp"

#include "ring/copy.hpp"
#include "spec/check_arrays.hpp"
#include "transport/side_buffers.hpp"

#include <algorithm>
#include <string>

namespace rondo::detail {

ServerCore::ServerCore(SampleSpec spec, ServerOptions options, std::shared_ptr<Store> store)
    : spec_{std::move(spec)}, options_{options}, store_{std::move(store)} {}

ServerCore::~ServerCore() = default;

std::optional<InsertError> ServerCore::check(std::span<const ArrayBytes> arrays,
                                             std::size_t count) const {
    auto difference = check_arrays(spec_, arrays, count, "server");
    if (!difference) return std::nullopt;
    return InsertError{InsertError::Code::mismatch, 0, std::move(*difference)};
}

namespace {

/// Reserves and commits until `count` samples are in, or the ring declines. `fill` copies: it gets
/// the reservation and how many samples came before it.
template <typename Fill>
ServerCore::Taken take(Store& store, std::size_t first, std::size_t count,
                       const Fill& fill) noexcept {
    ServerCore::Taken taken;
    while (first + taken.rows < count) {
        const auto slots = store.try_reserve(count - first - taken.rows);
        if (!slots) {
            taken.closed = slots.error() == ReserveRefusal::closed;
            break;
        }
        const auto began = Recorder::now();
        fill(*slots, first + taken.rows);
        store.recorder().filled(began);
        store.commit(*slots);
        taken.rows += slots->count;
    }
    return taken;
}

}  // namespace

ServerCore::Taken ServerCore::take_rows(std::span<const ArrayBytes> arrays, std::size_t first,
                                        std::size_t count) noexcept {
    return take(*store_, first, count, [&](const Reservation& slots, std::size_t row) {
        copy_stacked_in(store_->ring(), slots.buffer, slots.first_slot, slots.count, row, arrays);
    });
}

ServerCore::Taken ServerCore::take_payloads(const std::byte* payloads, std::size_t count) noexcept {
    return take(*store_, 0, count, [&](const Reservation& slots, std::size_t row) {
        copy_payload_in(store_->ring(), slots.buffer, slots.first_slot, slots.count,
                        payloads + row * spec_.payload_bytes());
    });
}

tl::expected<std::size_t, InsertError> ServerCore::receive(const Taken& taken,
                                                           Recorder::Instant began) {
    if (taken.closed && taken.rows == 0) {
        return tl::unexpected{InsertError{InsertError::Code::closed, 0, {}}};
    }
    counters_.front().samples_received.fetch_add(taken.rows, std::memory_order_relaxed);
    store_->recorder().committed(began, taken.rows);
    if (taken.rows > 0) store_->recorder().round_ended(began);
    return taken.rows;
}

tl::expected<std::optional<Batch>, SampleError> ServerCore::try_sample() {
    const auto leased = store_->try_lease();
    if (leased) return Batch{store_, spec_, *leased, info_at_lease(*leased)};
    if (leased.error() == LeaseRefusal::closed) {
        return tl::unexpected{SampleError{SampleError::Code::closed}};
    }
    return std::nullopt;
}

ServerCore::Connections ServerCore::count_connections() const noexcept {
    Connections connections;
    // Ended before accepted, and acquire: the difference never drops below zero.
    // order: acquire, pairs with ~TcpConnection; whoever is seen to have ended was accepted.
    for (const TransportCounters& of_thread : counters_) {
        connections.ended += of_thread.connections_ended.load(std::memory_order_acquire);
    }
    for (const TransportCounters& of_thread : counters_) {
        connections.accepted += of_thread.connections_accepted.load(std::memory_order_relaxed);
    }
    return connections;
}

SampleInfo ServerCore::info_at_lease(const Leased& leased) const {
    const StoreCounts& counts = leased.counts;
    const Connections connections = count_connections();
    const DetailedMetrics detailed = store_->recorder().read();
    return SampleInfo{
        .store_size = counts.samples_ready + leased.count,
        .active_connections = connections.accepted - connections.ended,
        .queue_depth_sum = counts.producers_waiting,
        .queue_depth_max = std::min<std::uint64_t>(counts.producers_waiting, 1),
        .push_blocked_count = counts.producer_waits,
        .samples_inserted_total = counts.samples_reserved,
        .notify_count = counts.wakes,
        .cas_success_total = detailed.cas_success_total,
        .cas_failure_total = detailed.cas_failure_total,
        .reservation_retries_total = detailed.reservation_retries_total,
        .drain_round = detailed.histograms.drain_round,
        .memcpy = detailed.histograms.memcpy,
        .queue_dwell = detailed.histograms.queue_dwell,
        .batch_age = counts.last_batch_age,
    };
}

Metrics ServerCore::metrics() const {
    const StoreCounts store = store_->counts();
    Metrics metrics{
        .samples_inserted_total = store.samples_reserved,
        .samples_ready = store.samples_ready,
        .batches_leased_total = store.batches_leased,
        .batches_released_total = store.batches_released,
        .live_leases = store.batches_leased - store.batches_released,
        .oldest_sample_age = store.oldest_sample_age,
        .last_batch_age = store.last_batch_age,
        .samples_dropped_at_close = store.samples_dropped_at_close,
        .producer_waits_total = store.producer_waits,
        .consumer_waits_total = store.consumer_waits,
        .wakes_total = store.wakes,
        .producers_waiting = store.producers_waiting,
        .consumers_waiting = store.consumers_waiting,
        .longest_producer_wait = store.longest_producer_wait,
        .longest_consumer_wait = store.longest_consumer_wait,
    };
    const Connections connections = count_connections();
    metrics.connections_accepted_total = connections.accepted;
    metrics.active_connections = connections.accepted - connections.ended;
    for (const TransportCounters& of_thread : counters_) {
        metrics.bytes_received_total += of_thread.bytes_received.load(std::memory_order_relaxed);
        metrics.samples_received_total +=
            of_thread.samples_received.load(std::memory_order_relaxed);
        metrics.truncated_samples_total +=
            of_thread.truncated_samples.load(std::memory_order_relaxed);
    }
    metrics.detailed = store_->recorder().read();
    const std::lock_guard lock{side_buffers_mutex_};
    for (const auto& watched : side_buffers_) {
        if (const auto buffers = watched.lock()) metrics.side_buffer_bytes += buffers->bytes_out();
    }
    return metrics;
}

void ServerCore::watch_side_buffers(std::weak_ptr<const SideBuffers> buffers) {
    const std::lock_guard lock{side_buffers_mutex_};
    side_buffers_.push_back(std::move(buffers));
}

tl::expected<void, ListenError> ServerCore::add(std::unique_ptr<Transport> transport) {
    const std::lock_guard lock{transports_mutex_};
    if (closed_) {
        return tl::unexpected{ListenError{ListenError::Code::closed,
                                          "the server is closed and takes no more transports"}};
    }
    transports_.reserve(transports_.size() + 1);  // a started transport must find its place
    if (auto started = transport->start(IngressAccess::make(shared_from_this())); !started)
        return started;
    transports_.push_back(std::move(transport));
    return {};
}

void ServerCore::close() {
    const std::lock_guard lock{transports_mutex_};
    closed_ = true;
    // First the input: every transport that waits for room wakes, and can stop.
    store_->close_input();
    for (const auto& transport : transports_) transport->stop();
    // They hold the core through their ingress: gone now, or nobody would free either.
    transports_.clear();
}

}  // namespace rondo::detail
