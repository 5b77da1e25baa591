// SPDX-License-Identifier: Apache-2.0
#include "base/usable_cores.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sched.h>
#include <string>
#include <thread>

namespace rondo::detail {
namespace {

// `max 100000` or `150000 100000`: quota and period in microseconds.
std::optional<unsigned> quota_of(const std::filesystem::path& cgroup) {
    std::ifstream file{cgroup / "cpu.max"};
    double quota = 0;
    double period = 0;
    if (!(file >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
    return static_cast<unsigned>(std::max(1.0, std::ceil(quota / period)));
}

// The process's cgroup v2, relative to the mount: the line `0::/path`.
std::optional<std::filesystem::path> own_cgroup(const std::filesystem::path& root) {
    std::ifstream file{root / "proc/self/cgroup"};
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("0::/")) return std::filesystem::path{line.substr(4)};
    }
    return std::nullopt;
}

unsigned affinity() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
    }
    return std::max(1U, std::thread::hardware_concurrency());  // more than 1,024 cores
}

}  // namespace

unsigned usable_cores(const std::filesystem::path& root) {
    unsigned cores = affinity();
    auto cgroup = own_cgroup(root);
    while (cgroup) {
        if (const auto quota = quota_of(root / "sys/fs/cgroup" / *cgroup)) {
            cores = std::min(cores, *quota);
        }
        if (cgroup->empty()) break;
        cgroup = cgroup->parent_path();
    }
    return cores;
}

}  // namespace rondo::detail
