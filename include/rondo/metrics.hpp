// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace rondo {

/// A distribution of durations. Each is within 1/64 (1.6 %) of what exact arithmetic would say, and
/// all but the mean are exact below 64 ns; a duration above 18 minutes counts as that.
struct HistSnapshot {
    std::uint64_t count = 0;   ///< exact
    std::uint64_t min_ns = 0;  ///< 0 if there is none, like all below
    std::uint64_t max_ns = 0;
    double mean_ns = 0;
    std::uint64_t p50_ns = 0;  ///< the least value that at least 50 % of all do not exceed
    std::uint64_t p90_ns = 0;
    std::uint64_t p99_ns = 0;
};

/// What the build with detailed metrics times, since creation or `Server::reset_histograms`.
struct Histograms {
    HistSnapshot drain_round{};  ///< of a connection's turn that took samples in
    HistSnapshot memcpy{};       ///< of one reservation: filling its slots
    HistSnapshot queue_dwell{};  ///< of one sample: from when its first byte was seen to its commit
};

/// What only the build with detailed metrics knows; zero in all others.
struct DetailedMetrics {
    std::uint64_t cas_success_total = 0;          ///< counter: reservations
    std::uint64_t cas_failure_total = 0;          ///< another producer was faster
    std::uint64_t reservation_retries_total = 0;  ///< these, and cursors that were found stale
    Histograms histograms{};
};

/// Whether this library was built with RONDO_DETAILED_METRICS.
[[nodiscard]] bool has_detailed_metrics() noexcept;

/// What a server knows about itself at one moment. Counters only grow; gauges are the value now.
/// Read with `Server::metrics()`, at any time and from any thread; the ring's numbers are
/// consistent with one another, the transports' may be a moment older.
struct Metrics {
    // The ring.
    std::uint64_t samples_inserted_total = 0;  ///< counter; includes the few being written now
    std::uint64_t samples_ready = 0;           ///< gauge: in complete batches nobody leased yet
    std::uint64_t batches_leased_total = 0;
    std::uint64_t batches_released_total = 0;
    std::uint64_t live_leases = 0;                 ///< gauge: batches that consumers hold
    std::chrono::nanoseconds oldest_sample_age{};  ///< gauge: `batch_age` of the next, so far
    std::chrono::nanoseconds last_batch_age{};     ///< gauge: `batch_age` of the one leased last
    std::uint64_t samples_dropped_at_close = 0;    ///< committed, but their batch stayed short

    // Who waits.
    std::uint64_t producer_waits_total = 0;  ///< times that the ring was full for somebody
    std::uint64_t consumer_waits_total = 0;  ///< times that no batch was ready for somebody
    std::uint64_t wakes_total = 0;
    std::uint64_t producers_waiting = 0;  ///< gauge: in-process inserts and connections
    std::uint64_t consumers_waiting = 0;
    std::chrono::nanoseconds longest_producer_wait{};  ///< gauge: of those who wait now
    std::chrono::nanoseconds longest_consumer_wait{};

    // The transports.
    std::uint64_t active_connections = 0;
    std::uint64_t connections_accepted_total = 0;
    std::uint64_t bytes_received_total = 0;
    std::uint64_t samples_received_total = 0;   ///< committed from transports
    std::uint64_t truncated_samples_total = 0;  ///< peers that left in the middle of a sample
    std::uint64_t side_buffer_bytes = 0;        ///< gauge: parts of samples held outside the ring

    DetailedMetrics detailed{};
};

/// The numbers that a batch carries, read when it was leased, under id-echo's names.
struct SampleInfo {
    std::uint64_t store_size = 0;  ///< samples in complete batches, this one included
    std::uint64_t active_connections = 0;
    std::uint64_t queue_depth_sum = 0;  ///< producers that wait for room: rondo queues no samples
    std::uint64_t queue_depth_max = 0;  ///< 1 if one waits, since each holds back one sample
    std::uint64_t push_blocked_count = 0;  ///< `Metrics::producer_waits_total`
    std::uint64_t samples_inserted_total = 0;
    std::uint64_t notify_count = 0;  ///< `Metrics::wakes_total`

    // As in `DetailedMetrics` and `Histograms`.
    std::uint64_t cas_success_total = 0;
    std::uint64_t cas_failure_total = 0;
    std::uint64_t reservation_retries_total = 0;
    HistSnapshot drain_round{};
    HistSnapshot memcpy{};
    HistSnapshot queue_dwell{};

    /// How old the batch was when it was leased: the time since its first slot was taken. So its
    /// oldest sample was committed no longer ago than this; nor much less, only by the time that
    /// the producer of the first slot took to fill it.
    std::chrono::nanoseconds batch_age{};
};

}  // namespace rondo
