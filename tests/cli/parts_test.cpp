// SPDX-License-Identifier: Apache-2.0
#include "cli/checksum.hpp"
#include "cli/format.hpp"
#include "cli/histogram.hpp"
#include "cli/host_port.hpp"
#include "cli/progress.hpp"
#include "cli/random.hpp"
#include "cli/throughput.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using rondo::cli::HostPort;
using rondo::cli::parse_host_port;
using rondo::test::contains;

// --- checksum and random numbers --------------------------------------------------------------

TEST_CASE("checksum: FNV-1a gives its published values, in one piece or in several") {
    const auto of = [](std::string_view text, std::uint64_t hash = rondo::cli::fnv1a_basis) {
        return rondo::cli::fnv1a(std::as_bytes(std::span{text}), hash);
    };
    CHECK(of("") == 0xcbf29ce484222325);
    CHECK(of("a") == 0xaf63dc4c8601ec8c);
    CHECK(of("foobar") == 0x85944171f73967e8);
    CHECK(of("bar", of("foo")) == of("foobar"));
}

TEST_CASE("random: SplitMix64 gives its published values") {
    rondo::cli::Random random{1234567};
    CHECK(random.next() == 6457827717110365317);
    CHECK(random.next() == 3203168211198807973);
    CHECK(random.next() == 9817491932198370423U);
}

// --- HOST:PORT --------------------------------------------------------------------------------

TEST_CASE("host:port: names, IPv4 and bracketed IPv6 addresses are read") {
    CHECK(parse_host_port("learner:50051") == HostPort{"learner", 50051});
    CHECK(parse_host_port("127.0.0.1:1") == HostPort{"127.0.0.1", 1});
    CHECK(parse_host_port("[::1]:65535") == HostPort{"::1", 65535});
    CHECK(parse_host_port("[fe80::1%eth0]:80") == HostPort{"fe80::1%eth0", 80});
}

TEST_CASE("host:port: each error quotes the text and says what is wrong") {
    const auto error = [](std::string_view text) {
        const auto parsed = parse_host_port(text);
        REQUIRE_FALSE(parsed.has_value());
        CHECK_THAT(parsed.error(), contains("'" + std::string{text} + "'"));
        CHECK_THAT(parsed.error(), contains("expected HOST:PORT"));
        return parsed.error();
    };
    CHECK_THAT(error(""), contains("has no host"));
    CHECK_THAT(error(":80"), contains("has no host"));
    CHECK_THAT(error("[]:80"), contains("has no host"));
    CHECK_THAT(error("learner"), contains("has no port"));
    CHECK_THAT(error("[::1]"), contains("has no port"));
    CHECK_THAT(error("[::1]x"), contains("has no port"));
    CHECK_THAT(error("[::1:80"), contains("has no ']'"));
    CHECK_THAT(error("::1:80"), contains("needs brackets"));
    for (const char* text : {"learner:", "learner:0", "learner:65536", "learner:-1", "learner:+1",
                             "learner:80x", "learner: 80", "[::1]:"}) {
        CHECK_THAT(error(text), contains("no port between 1 and 65535"));
    }
}

// --- histogram --------------------------------------------------------------------------------

TEST_CASE("histogram: small values are exact") {
    rondo::cli::Histogram histogram;
    CHECK(histogram.percentile(0.5) == 0.0);
    for (std::uint64_t value = 1; value <= 100; ++value) histogram.add(value);
    CHECK(histogram.total() == 100);
    CHECK(histogram.percentile(0.0) == 1.0);
    CHECK(histogram.percentile(0.5) == 50.0);
    CHECK(histogram.percentile(0.99) == 99.0);
    CHECK(histogram.percentile(1.0) == 100.0);
}

TEST_CASE("histogram: one value is its own percentile within 1 %, whatever its size") {
    for (int power = 0; power < 64; ++power) {
        const std::uint64_t base = std::uint64_t{1} << power;
        for (const std::uint64_t value :
             {base - 1, base, base + 1, base + base / 3, base + (base - 1)}) {
            rondo::cli::Histogram histogram;
            histogram.add(value);
            const auto exact = static_cast<double>(value);
            CAPTURE(value);
            CHECK(std::abs(histogram.percentile(0.5) - exact) <= 0.01 * exact);
        }
    }
}

TEST_CASE("histogram: percentiles of many values agree with a sorted list within 1 %") {
    rondo::cli::Random random{5};
    rondo::cli::Histogram histogram;
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 100'000; ++i) {
        values.push_back(random.next() >> (random.next() % 60));
        histogram.add(values.back());
    }
    std::ranges::sort(values);
    for (const double fraction : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999}) {
        const auto rank =
            static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
        const auto exact = static_cast<double>(values[rank - 1]);
        CAPTURE(fraction);
        CHECK(std::abs(histogram.percentile(fraction) - exact) <= 0.01 * exact);
    }
}

// --- text -------------------------------------------------------------------------------------

TEST_CASE("format: numbers, durations and rates read well") {
    using namespace rondo::cli;
    CHECK(grouped(0) == "0");
    CHECK(grouped(999) == "999");
    CHECK(grouped(1'000) == "1,000");
    CHECK(grouped(1'234'567) == "1,234,567");
    CHECK(grouped(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
    CHECK(fixed(1.25, 1) == "1.2");
    CHECK(counted(1, "batch") == "1 batch");
    CHECK(counted(2, "batch") == "2 batches");
    CHECK(counted(0, "sample") == "0 samples");
    CHECK(duration_text(850) == "850 ns");
    CHECK(duration_text(12'340) == "12.3 us");
    CHECK(duration_text(1.26e6) == "1.3 ms");
    CHECK(duration_text(3.4e9) == "3.4 s");
    CHECK(rate_text(1234.6, 2.55e6) == "1,235 samples/s, 2.5 MB/s");
}

namespace {

/// A stream to memory.
class Written {
public:
    Written() : file_{::open_memstream(&text_, &size_)} {}
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;
    ~Written() {
        std::fclose(file_);
        std::free(text_);  // NOLINT(cppcoreguidelines-no-malloc)
    }
    [[nodiscard]] std::FILE* file() { return file_; }
    [[nodiscard]] std::string text() {
        std::fflush(file_);
        return {text_, size_};
    }

private:
    char* text_ = nullptr;
    std::size_t size_ = 0;
    std::FILE* file_;
};

}  // namespace

TEST_CASE("progress: elsewhere than on a terminal each line stands for itself, once a second") {
    Written out;
    {
        rondo::cli::Progress progress{out.file(), 0};
        CHECK(progress.interval() == 1s);
        progress.show("one");
        progress.show("two");
    }
    CHECK(out.text() == "one\ntwo\n");
}

TEST_CASE("progress: on a terminal a line replaces the one before, never wraps, and goes away") {
    Written out;
    {
        rondo::cli::Progress progress{out.file(), 5};
        CHECK(progress.interval() < 1s);
        progress.show("one");
        progress.show("longer");
        progress.clear();
        progress.clear();
    }
    CHECK(out.text() == "\r\033[Kone\r\033[Klong\r\033[K");
}

TEST_CASE("progress: a stream that is a file is no terminal") {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), &std::fclose};
    REQUIRE(file != nullptr);
    CHECK(rondo::cli::Progress{file.get()}.interval() == 1s);
}

// --- throughput -------------------------------------------------------------------------------

TEST_CASE("throughput: what came before the beginning counts, but not for the rate") {
    const rondo::cli::Throughput::Clock::time_point zero{100s};
    rondo::cli::Throughput throughput;
    CHECK(throughput.per_second() == 0.0);
    CHECK(throughput.recent_per_second(zero) == 0.0);
    throughput.add(10, zero);
    CHECK(throughput.per_second() == 0.0);
    throughput.add(20, zero + 2s);
    CHECK(throughput.samples() == 30);
    CHECK(throughput.seconds() == 2.0);
    CHECK(throughput.per_second() == 10.0);
}

TEST_CASE("throughput: a beginning of one's own makes every sample count") {
    const rondo::cli::Throughput::Clock::time_point zero{100s};
    rondo::cli::Throughput throughput;
    throughput.start(zero);
    throughput.add(10, zero + 1s);
    throughput.add(30, zero + 2s);
    CHECK(throughput.per_second() == 20.0);
    CHECK(throughput.recent_per_second(zero + 4s) == 10.0);
    throughput.add(6, zero + 5s);
    CHECK(throughput.recent_per_second(zero + 6s) == 3.0);
}
