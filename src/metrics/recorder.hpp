// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "metrics/histogram.hpp"
#include "metrics/striped.hpp"
#include <rondo/metrics.hpp>

#include <chrono>
#include <cstdint>
#include <type_traits>

namespace rondo::detail {

/// What the build with RONDO_DETAILED_METRICS counts and times beyond the other metrics.
/// Thread-safety: every member may be called from any thread.
class DetailedRecorder {
public:
    /// A moment, to be given back to the recorder.
    class Instant {
    public:
        Instant() = default;

    private:
        friend class DetailedRecorder;
        std::int64_t ns_ = 0;  // of the steady clock; 0: none
    };

    static Instant now() noexcept {
        using namespace std::chrono;
        Instant instant;
        instant.ns_ = nanoseconds{steady_clock::now().time_since_epoch()}.count();
        return instant;
    }

    /// The moment kept in `ns`; of the first call with it, which finds 0 there.
    static Instant first(std::int64_t& ns) noexcept {
        if (ns == 0) ns = now().ns_;
        Instant instant;
        instant.ns_ = ns;
        return instant;
    }

    /// When the samples that one connection has under way began to arrive. The first of them may
    /// have begun in an earlier read than those behind it. Thread-safety: none.
    class Arrivals {
    public:
        /// A read that began at `when` saw bytes.
        void saw_bytes(Instant when) noexcept {
            latest_ = when;
            if (first_.ns_ == 0) first_ = when;
        }

        /// So many left for the ring, and whether anything is left behind.
        void committed(DetailedRecorder& recorder, std::uint64_t samples, bool more) noexcept {
            if (samples == 0) return;
            recorder.committed(first_, 1);
            recorder.committed(latest_, samples - 1);
            first_ = more ? latest_ : Instant{};
        }

    private:
        Instant first_;
        Instant latest_;
    };

    void cas_succeeded() noexcept { add(counters_.mine().cas_successes); }
    void cas_failed() noexcept { add(counters_.mine().cas_failures); }
    void cursor_was_stale() noexcept { add(counters_.mine().stale_cursors); }

    void filled(Instant since) noexcept { memcpy_.record(passed(since)); }
    void round_ended(Instant since) noexcept { drain_round_.record(passed(since)); }
    void committed(Instant since, std::uint64_t samples) noexcept {
        if (samples > 0) queue_dwell_.record(passed(since), samples);
    }

    [[nodiscard]] DetailedMetrics read() const;
    Histograms reset_histograms();

private:
    struct Counters {
        Counter cas_successes{0};
        Counter cas_failures{0};
        Counter stale_cursors{0};
    };

    static void add(Counter& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }
    static std::uint64_t passed(Instant since) noexcept {
        return static_cast<std::uint64_t>(now().ns_ - since.ns_);
    }

    Striped<Counters> counters_;
    Histogram drain_round_;
    Histogram memcpy_;
    Histogram queue_dwell_;
};

/// The same for the other builds: nothing, in no time and no space.
class NoRecorder {
public:
    struct Instant {};

    static Instant now() noexcept { return {}; }
    static Instant first(std::int64_t& /*ns*/) noexcept { return {}; }

    class Arrivals {
    public:
        void saw_bytes(Instant /*when*/) noexcept {}
        void committed(NoRecorder& /*recorder*/, std::uint64_t /*samples*/,
                       bool /*more*/) noexcept {}
    };

    void cas_succeeded() noexcept {}
    void cas_failed() noexcept {}
    void cursor_was_stale() noexcept {}

    void filled(Instant /*since*/) noexcept {}
    void round_ended(Instant /*since*/) noexcept {}
    void committed(Instant /*since*/, std::uint64_t /*samples*/) noexcept {}

    [[nodiscard]] DetailedMetrics read() const noexcept { return {}; }
    Histograms reset_histograms() noexcept { return {}; }
};
static_assert(std::is_empty_v<NoRecorder> && std::is_empty_v<NoRecorder::Instant> &&
                  std::is_empty_v<NoRecorder::Arrivals>,
              "a build without detailed metrics does not pay for them");

#ifdef RONDO_DETAILED_METRICS
using Recorder = DetailedRecorder;
#else
using Recorder = NoRecorder;
#endif

}  // namespace rondo::detail
