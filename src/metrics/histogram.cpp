// SPDX-License-Identifier: Apache-2.0
#include "metrics/histogram.hpp"

namespace rondo::detail {

Histogram::Histogram() : buckets_{std::make_unique<Striped<Buckets>>()} {}

HistSnapshot Histogram::read() const {
    const std::lock_guard lock{mutex_};
    return summary(difference(totals(), at_reset_));
}

HistSnapshot Histogram::reset() {
    const std::lock_guard lock{mutex_};
    const Counts now = totals();
    const Counts ended = difference(now, at_reset_);
    at_reset_ = now;
    return summary(ended);
}

Histogram::Counts Histogram::totals() const noexcept {
    Counts totals{};
    buckets_->each([&totals](const Buckets& buckets) {
        for (std::size_t i = 0; i < size; ++i) {
            totals[i] += buckets[i].load(std::memory_order_relaxed);
        }
    });
    return totals;
}

Histogram::Counts Histogram::difference(const Counts& now, const Counts& before) noexcept {
    Counts counts;
    for (std::size_t i = 0; i < size; ++i) counts[i] = now[i] - before[i];
    return counts;
}

HistSnapshot Histogram::summary(const Counts& counts) noexcept {
    HistSnapshot snapshot;
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
        if (counts[i] == 0) continue;  // as most are
        snapshot.count += counts[i];
        sum += static_cast<double>(counts[i]) * static_cast<double>(value_of(i));
    }
    const std::uint64_t count = snapshot.count;
    if (count == 0) return snapshot;
    // The value that a share of all does not exceed is the one of this rank, counted from 1.
    const auto percent = [count](std::uint64_t share) { return (count * share + 99) / 100; };
    snapshot.mean_ns = sum / static_cast<double>(count);
    snapshot.min_ns = value_at(counts, 1);
    snapshot.p50_ns = value_at(counts, percent(50));
    snapshot.p90_ns = value_at(counts, percent(90));
    snapshot.p99_ns = value_at(counts, percent(99));
    snapshot.max_ns = value_at(counts, count);
    return snapshot;
}

std::uint64_t Histogram::value_at(const Counts& counts, std::uint64_t rank) noexcept {
    std::size_t index = 0;
    for (std::uint64_t seen = counts[0]; seen < rank; seen += counts[index]) ++index;
    return value_of(index);
}

}  // namespace rondo::detail
