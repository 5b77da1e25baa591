// SPDX-License-Identifier: Apache-2.0
#include "metrics/histogram.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

using rondo::HistSnapshot;
using rondo::detail::Histogram;

namespace {

bool within(double read, double exact) {
    return std::abs(read - exact) <= exact / 64;
}

bool within(std::uint64_t read, std::uint64_t exact) {
    return exact < 64 ? read == exact
                      : within(static_cast<double>(read), static_cast<double>(exact));
}

HistSnapshot read_of(const std::vector<std::uint64_t>& values) {
    Histogram histogram;
    for (const auto value : values) histogram.record(value);
    return histogram.read();
}

/// The value that `percent` of the sorted values do not exceed.
std::uint64_t exact(const std::vector<std::uint64_t>& sorted, std::size_t percent) {
    return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

void check_against_exact(std::vector<std::uint64_t> values) {
    const HistSnapshot read = read_of(values);
    std::sort(values.begin(), values.end());
    double sum = 0;
    for (const auto value : values) sum += static_cast<double>(value);
    CHECK(read.count == values.size());
    CHECK(within(read.min_ns, values.front()));
    CHECK(within(read.max_ns, values.back()));
    CHECK(within(read.mean_ns, sum / static_cast<double>(values.size())));
    CHECK(within(read.p50_ns, exact(values, 50)));
    CHECK(within(read.p90_ns, exact(values, 90)));
    CHECK(within(read.p99_ns, exact(values, 99)));
}

}  // namespace

TEST_CASE("Histogram: without a value everything is zero") {
    const HistSnapshot read = Histogram{}.read();
    CHECK(read.count == 0);
    CHECK(read.min_ns == 0);
    CHECK(read.max_ns == 0);
    CHECK(read.mean_ns == 0);
    CHECK(read.p50_ns == 0);
    CHECK(read.p99_ns == 0);
}

TEST_CASE("Histogram: every value around a power of two is within 1/64") {
    for (unsigned bits = 0; bits < Histogram::longest_bits; ++bits) {
        const std::uint64_t power = std::uint64_t{1} << bits;
        for (std::uint64_t value = power - std::min<std::uint64_t>(power, 70); value < power + 70;
             ++value) {
            const HistSnapshot read = read_of({value});
            REQUIRE(read.count == 1);
            REQUIRE(within(read.p50_ns, value));
            REQUIRE(read.min_ns == read.max_ns);
        }
    }
}

TEST_CASE("Histogram: quantiles of any distribution are within 1/64 of the exact ones") {
    std::mt19937_64 random{2};  // NOLINT(cert-msc51-cpp)
    const std::size_t count = GENERATE(as<std::size_t>{}, 1, 2, 3, 10, 99, 100, 101, 20'000);
    std::vector<std::uint64_t> values(count);
    SECTION("log-normal, over many powers of two") {
        std::lognormal_distribution<double> distribution{9, 3};
        for (auto& value : values) value = static_cast<std::uint64_t>(distribution(random));
        check_against_exact(values);
    }
    SECTION("uniform over a narrow range") {
        std::uniform_int_distribution<std::uint64_t> distribution{1'000, 1'100};
        for (auto& value : values) value = distribution(random);
        check_against_exact(values);
    }
    SECTION("small, where it is exact") {
        std::uniform_int_distribution<std::uint64_t> distribution{0, 63};
        for (auto& value : values) value = distribution(random);
        check_against_exact(values);
    }
    SECTION("two far apart values") {
        for (auto& value : values) value = random() % 10 == 0 ? 5'000'000'000 : 40;
        check_against_exact(values);
    }
}

TEST_CASE("Histogram: what is longer than the scale counts as its end") {
    const HistSnapshot read = read_of({Histogram::longest, ~std::uint64_t{0}});
    CHECK(read.count == 2);
    CHECK(within(read.max_ns, Histogram::longest));
    CHECK(read.min_ns == read.max_ns);
}

TEST_CASE("Histogram: one record may stand for many equal values") {
    Histogram histogram;
    histogram.record(10, 98);
    histogram.record(20, 2);
    const HistSnapshot read = histogram.read();
    CHECK(read.count == 100);
    CHECK(read.p90_ns == 10);
    CHECK(read.p99_ns == 20);
    CHECK(std::abs(read.mean_ns - 10.2) < 1e-9);
}

TEST_CASE("Histogram: a reset returns what was recorded, and begins anew") {
    Histogram histogram;
    histogram.record(5);
    histogram.record(60);
    const HistSnapshot first = histogram.reset();
    CHECK(first.count == 2);
    CHECK(first.max_ns == 60);
    CHECK(histogram.read().count == 0);
    histogram.record(7);
    const HistSnapshot second = histogram.read();
    CHECK(second.count == 1);
    CHECK(second.min_ns == 7);
    CHECK(second.max_ns == 7);
}

// Zeroing the counters, or keeping a sum beside them, fails here: some value would be in no
// interval, or its count in one and the value in the next.
TEST_CASE("Histogram: each value that races with resets is whole in one interval") {
    constexpr std::size_t threads = rondo::detail::Striped<int>::count + 1;  // two share a stripe
    Histogram histogram;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> recorded{0};
    std::atomic<std::uint64_t> recorded_sum{0};
    std::vector<std::thread> recorders;
    for (std::size_t i = 0; i < threads; ++i) {
        recorders.emplace_back([&] {
            std::uint64_t count = 0;
            std::uint64_t sum = 0;
            for (std::uint64_t value = 1; !stop; value = value % 50 + 1) {
                histogram.record(value);
                histogram.record(63, 2);
                count += 3;
                sum += value + 2 * 63;
            }
            recorded += count;
            recorded_sum += sum;
        });
    }
    std::thread reader{[&] {
        while (!stop) (void)histogram.read();
    }};
    std::uint64_t count = 0;
    double sum = 0;
    const auto add = [&](const HistSnapshot& interval) {
        count += interval.count;
        // Exact: integers below 64, and far below 2^53 together.
        sum += std::round(interval.mean_ns * static_cast<double>(interval.count));
    };
    for (int resets = 0; resets < 200 || count == 0; ++resets) add(histogram.reset());
    stop = true;
    for (auto& recorder : recorders) recorder.join();
    reader.join();
    add(histogram.reset());
    CHECK(count == recorded);
    CHECK(sum == static_cast<double>(recorded_sum.load()));
}

TEST_CASE("Histogram: without a reset no reading says less than one before it") {
    Histogram histogram;
    std::atomic<bool> stop{false};
    std::thread recorder{[&] {
        while (!stop) histogram.record(9);
    }};
    std::atomic<std::uint64_t> at_least{0};
    std::atomic<bool> shrank{false};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
        readers.emplace_back([&] {
            for (int round = 0; round < 2'000; ++round) {
                const std::uint64_t before = at_least;
                const std::uint64_t read = histogram.read().count;
                if (read < before) shrank = true;
                std::uint64_t known = at_least;
                while (known < read && !at_least.compare_exchange_weak(known, read)) {
                }
            }
        });
    }
    for (auto& reader : readers) reader.join();
    stop = true;
    recorder.join();
    CHECK_FALSE(shrank);
}
