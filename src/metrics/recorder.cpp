// SPDX-License-Identifier: Apache-2.0
#include "metrics/recorder.hpp"

#include <concepts>

namespace rondo {

bool has_detailed_metrics() noexcept {
    return std::same_as<detail::Recorder, detail::DetailedRecorder>;
}

namespace detail {

DetailedMetrics DetailedRecorder::read() const {
    DetailedMetrics metrics;
    counters_.each([&metrics](const Counters& counters) {
        metrics.cas_success_total += counters.cas_successes.load(std::memory_order_relaxed);
        metrics.cas_failure_total += counters.cas_failures.load(std::memory_order_relaxed);
        metrics.reservation_retries_total += counters.stale_cursors.load(std::memory_order_relaxed);
    });
    metrics.reservation_retries_total += metrics.cas_failure_total;
    metrics.histograms = {.drain_round = drain_round_.read(),
                          .memcpy = memcpy_.read(),
                          .queue_dwell = queue_dwell_.read()};
    return metrics;
}

Histograms DetailedRecorder::reset_histograms() {
    return {.drain_round = drain_round_.reset(),
            .memcpy = memcpy_.reset(),
            .queue_dwell = queue_dwell_.reset()};
}

}  // namespace detail
}  // namespace rondo
