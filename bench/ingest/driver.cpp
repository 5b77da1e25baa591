// SPDX-License-Identifier: Apache-2.0
#include "ingest/driver.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace rondo::bench {
namespace {

void print(const nlohmann::json& line) {
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
}

double seconds(const timeval& time) noexcept {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::uint64_t resident_bytes() {
    std::ifstream statm{"/proc/self/statm"};
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Nearest rank; sorts `values`.
nlohmann::json percentiles(std::vector<std::uint64_t>& values) {
    std::ranges::sort(values);
    const auto at = [&](double share) {
        return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
    };
    return {{"p50_ns", at(0.50)}, {"p99_ns", at(0.99)}, {"count", values.size()}};
}

}  // namespace

std::uint64_t now_ns() noexcept {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

Driver::Driver(std::uint16_t port) {
    print({{"port", port}});
    reader_ = std::thread{[this] {
        for (std::string line; std::getline(std::cin, line);) wanted_ = line == "mark";
        std::_Exit(EXIT_SUCCESS);
    }};
}

void Driver::print_reading(std::uint64_t samples, Ages& ages) {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    nlohmann::json reading{
        {"samples", samples},
        {"seconds", 1e-9 * static_cast<double>(now_ns())},
        {"cpu_seconds", seconds(used.ru_utime) + seconds(used.ru_stime)},
        {"resident_bytes", resident_bytes()},
    };
    if (!ages.all.empty()) {
        reading["ages"] = percentiles(ages.all);
        reading["youngest"] = percentiles(ages.youngest);
        ages = {};
    }
    print(reading);
}

}  // namespace rondo::bench
