// SPDX-License-Identifier: Apache-2.0
// Both recorders, whichever the build uses.
#include "metrics/recorder.hpp"

#include "metrics/staged_time.hpp"
#include "support/catch.hpp"

#include <thread>
#include <vector>

using rondo::DetailedMetrics;
using rondo::Histograms;
using rondo::HistSnapshot;
using rondo::detail::DetailedRecorder;
using rondo::detail::NoRecorder;
using rondo::test::at_least;
using rondo::test::at_most;
using rondo::test::let_time_pass;
using rondo::test::ns_since;
using rondo::test::SteadyTime;

TEST_CASE("Recorder: the counters of all threads add up") {
    DetailedRecorder recorder;
    std::vector<std::thread> threads;
    for (int i = 0; i < 10; ++i) {
        threads.emplace_back([&recorder] {
            for (int n = 0; n < 100; ++n) recorder.cas_succeeded();
            for (int n = 0; n < 10; ++n) recorder.cas_failed();
            recorder.cursor_was_stale();
        });
    }
    for (auto& thread : threads) thread.join();
    const DetailedMetrics read = recorder.read();
    CHECK(read.cas_success_total == 1'000);
    CHECK(read.cas_failure_total == 100);
    CHECK(read.reservation_retries_total == 110);
}

TEST_CASE("Recorder: each histogram gets its own durations, and a reset spares the counters") {
    DetailedRecorder recorder;
    recorder.cas_succeeded();
    const auto began = DetailedRecorder::now();
    recorder.filled(began);
    recorder.round_ended(began);
    recorder.round_ended(began);
    recorder.committed(began, 3);
    recorder.committed(began, 0);
    for (const Histograms& read : {recorder.read().histograms, recorder.reset_histograms()}) {
        CHECK(read.memcpy.count == 1);
        CHECK(read.drain_round.count == 2);
        CHECK(read.queue_dwell.count == 3);
    }
    const DetailedMetrics after = recorder.read();
    CHECK(after.histograms.memcpy.count == 0);
    CHECK(after.histograms.drain_round.count == 0);
    CHECK(after.histograms.queue_dwell.count == 0);
    CHECK(after.cas_success_total == 1);
}

TEST_CASE("Recorder: a wait that goes on keeps its first moment") {
    DetailedRecorder recorder;
    std::int64_t kept = 0;
    (void)DetailedRecorder::first(kept);
    const SteadyTime after_first = rondo::test::now();
    const SteadyTime before_second = let_time_pass();
    recorder.filled(DetailedRecorder::first(kept));
    CHECK(at_least(recorder.read().histograms.memcpy.max_ns, ns_since(after_first, before_second)));
}

TEST_CASE("Recorder: the sample at the front began to arrive before those behind it") {
    DetailedRecorder recorder;
    DetailedRecorder::Arrivals arrivals;
    arrivals.saw_bytes(DetailedRecorder::now());
    const SteadyTime after_first = rondo::test::now();
    const SteadyTime before_second = let_time_pass();
    arrivals.saw_bytes(DetailedRecorder::now());
    const std::uint64_t gap = ns_since(after_first, before_second);

    arrivals.committed(recorder, 0, true);  // nothing left: nothing changes
    arrivals.committed(recorder, 3, true);
    const HistSnapshot first = recorder.reset_histograms().queue_dwell;
    CHECK(first.count == 3);
    CHECK(at_least(first.max_ns, gap));
    CHECK(at_most(first.p50_ns, ns_since(before_second, rondo::test::now())));

    // What stayed behind was seen by the second read, not by the first.
    arrivals.committed(recorder, 1, false);
    const HistSnapshot second = recorder.reset_histograms().queue_dwell;
    CHECK(second.count == 1);
    CHECK(at_most(second.max_ns, ns_since(before_second, rondo::test::now())));

    // Nothing stayed: the next bytes are the beginning of something new.
    const SteadyTime before_third = let_time_pass();
    arrivals.saw_bytes(DetailedRecorder::now());
    arrivals.committed(recorder, 1, false);
    CHECK(at_most(recorder.read().histograms.queue_dwell.max_ns,
                  ns_since(before_third, rondo::test::now())));
}

TEST_CASE("Recorder: without detailed metrics it records nothing, and takes no room") {
    NoRecorder recorder;
    std::int64_t kept = 0;
    const auto began = NoRecorder::first(kept);
    recorder.cas_succeeded();
    recorder.cas_failed();
    recorder.cursor_was_stale();
    recorder.filled(began);
    recorder.round_ended(NoRecorder::now());
    recorder.committed(began, 3);
    NoRecorder::Arrivals{}.committed(recorder, 1, false);
    CHECK(kept == 0);
    CHECK(recorder.read().cas_success_total == 0);
    CHECK(recorder.reset_histograms().queue_dwell.count == 0);

    struct Plain {
        std::uint64_t one;
    };
    struct WithRecorder {
        [[no_unique_address]] NoRecorder recorder;
        std::uint64_t one;
    };
    STATIC_REQUIRE(sizeof(WithRecorder) == sizeof(Plain));
}
