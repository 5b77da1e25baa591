// SPDX-License-Identifier: Apache-2.0
#include "ring/memory_limits.hpp"

#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace fs = std::filesystem;
using rondo::RingMemory;
using rondo::detail::check_memory;
using rondo::detail::MemoryLimits;
using rondo::detail::read_memory_limits;

namespace {

constexpr std::uint64_t kib = 1024;

/// A directory that stands for `/`, removed at the end.
class FakeRoot {
public:
    FakeRoot() {
        auto name = (fs::temp_directory_path() / "rondo-root-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root_ = name;
    }
    ~FakeRoot() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    FakeRoot(const FakeRoot&) = delete;
    FakeRoot& operator=(const FakeRoot&) = delete;

    FakeRoot& file(const fs::path& path, const std::string& text) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream{root_ / path} << text;
        return *this;
    }

    /// 1000 KiB in all, 800 KiB of them available.
    FakeRoot& machine() {
        return file("proc/meminfo",
                    "MemTotal:           1000 kB\nMemFree:             100 kB\n"
                    "MemAvailable:        800 kB\nCommitLimit:         700 kB\n"
                    "Committed_AS:        300 kB\n");
    }

    [[nodiscard]] MemoryLimits limits() const { return read_memory_limits(root_); }

private:
    fs::path root_;
};

std::string bytes(std::uint64_t n) {
    return std::to_string(n) + '\n';
}

}  // namespace

TEST_CASE("Ring: without any file nothing limits the memory") {
    const FakeRoot root;
    const auto limits = root.limits();
    CHECK(limits.available_now == MemoryLimits::none);
    CHECK(limits.ever == MemoryLimits::none);
    CHECK(limits.ever_limited_by == "64-bit address space");
    CHECK(check_memory(MemoryLimits::none, limits).has_value());
}

TEST_CASE("Ring: without a cgroup the machine is the limit") {
    FakeRoot root;
    root.machine().file("proc/self/cgroup", "0::/\n");
    const auto limits = root.limits();
    CHECK(limits.available_now == 800 * kib);
    CHECK(limits.now_limited_by == "MemAvailable");
    CHECK(limits.ever == 1000 * kib);
    CHECK(limits.ever_limited_by == "MemTotal");
}

TEST_CASE("Ring: a limit on the parent of a cgroup v2 counts, less what is used of it") {
    FakeRoot root;
    root.machine()
        .file("proc/self/cgroup", "0::/job/task/leaf\n")
        .file("sys/fs/cgroup/job/task/leaf/memory.max", "max\n")
        .file("sys/fs/cgroup/job/task/leaf/memory.current", bytes(100 * kib))
        .file("sys/fs/cgroup/job/task/memory.max", bytes(500 * kib))
        .file("sys/fs/cgroup/job/task/memory.current", bytes(300 * kib))
        .file("sys/fs/cgroup/job/task/memory.stat",
              "anon 1\ninactive_file_other 7\ninactive_file 51200\nactive_file 9\n")
        .file("sys/fs/cgroup/job/memory.max", bytes(900 * kib))
        .file("sys/fs/cgroup/job/memory.current", bytes(890 * kib));
    const auto limits = root.limits();
    CHECK(limits.available_now == 10 * kib);
    CHECK(limits.now_limited_by == "cgroup memory.max of /sys/fs/cgroup/job");
    CHECK(limits.ever == 500 * kib);
    CHECK(limits.ever_limited_by == "cgroup memory.max of /sys/fs/cgroup/job/task");

    root.file("sys/fs/cgroup/job/memory.current", bytes(300 * kib));
    CHECK(root.limits().available_now == 250 * kib);  // 500 - (300 - 50 of file cache)
}

TEST_CASE("Ring: in a container, whose mount is its own cgroup, the root of the mount counts") {
    FakeRoot root;
    root.machine()
        .file("proc/self/cgroup", "0::/docker/0123abcd\n")
        .file("sys/fs/cgroup/memory.max", bytes(400 * kib))
        .file("sys/fs/cgroup/memory.current", bytes(500 * kib));
    const auto limits = root.limits();
    CHECK(limits.available_now == 0);
    CHECK(limits.ever == 400 * kib);
    CHECK(limits.ever_limited_by == "cgroup memory.max of /sys/fs/cgroup");

    root.file("proc/self/cgroup", "0::/../../elsewhere\n");
    CHECK(root.limits().ever == 400 * kib);
}

TEST_CASE("Ring: cgroup v1 counts, and its huge number means no limit") {
    FakeRoot root;
    root.machine()
        .file("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job/task\n0::/unified\n")
        .file("sys/fs/cgroup/memory/job/task/memory.limit_in_bytes", "9223372036854771712\n")
        .file("sys/fs/cgroup/memory/job/task/memory.usage_in_bytes", bytes(1))
        .file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", bytes(600 * kib))
        .file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", bytes(200 * kib))
        .file("sys/fs/cgroup/memory/job/memory.stat",
              "inactive_file 1\ntotal_inactive_file 102400\n");
    const auto limits = root.limits();
    CHECK(limits.available_now == 500 * kib);
    CHECK(limits.ever == 600 * kib);
    CHECK(limits.ever_limited_by == "cgroup memory.limit_in_bytes of /sys/fs/cgroup/memory/job");

    FakeRoot unlimited;
    unlimited.file("proc/self/cgroup", "4:memory:/\n")
        .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(unlimited.limits().ever == MemoryLimits::none);
}

TEST_CASE("Ring: the resource limits of the process count, less its size") {
    FakeRoot root;
    root.machine()
        .file("proc/self/limits",
              "Limit                     Soft Limit           Hard Limit           Units     \n"
              "Max data size             unlimited            unlimited            bytes     \n"
              "Max address space         512000               unlimited            bytes     \n")
        .file("proc/self/status", "Name:\ta\nVmSize:\t     200 kB\nVmData:\t 450 kB\n");
    auto limits = root.limits();
    CHECK(limits.available_now == 300 * kib);
    CHECK(limits.now_limited_by == "RLIMIT_AS");
    CHECK(limits.ever == 500 * kib);
    CHECK(limits.ever_limited_by == "RLIMIT_AS");

    root.file("proc/self/limits", "Max data size             512000   512000   bytes\n");
    limits = root.limits();
    CHECK(limits.available_now == 50 * kib);
    CHECK(limits.now_limited_by == "RLIMIT_DATA");
}

TEST_CASE("Ring: a machine that does not overcommit limits to what it may commit") {
    FakeRoot root;
    root.machine().file("proc/sys/vm/overcommit_memory", "1\n");
    CHECK(root.limits().ever == 1000 * kib);
    root.file("proc/sys/vm/overcommit_memory", "2\n");
    CHECK(root.limits().ever == 700 * kib);
    CHECK(root.limits().available_now == 400 * kib);
}

TEST_CASE("Ring: files that make no sense limit nothing") {
    FakeRoot root;
    root.file("proc/meminfo", "MemTotal: lots\nMemAvailable:\nMemTotal\n\n\x01\xff MemTotal: 3")
        .file("proc/self/cgroup", "\n:\n::\n0:\nx::/a\n0::\n4:memory:\n0::/a")
        .file("proc/self/limits", "Max address space")
        .file("proc/self/status", "")
        .file("proc/sys/vm/overcommit_memory", "two")
        .file("sys/fs/cgroup/memory.max", "99999999999999999999999\n")
        .file("sys/fs/cgroup/a/memory.max", "-5\n")
        .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "");
    fs::path no_directory_either{"/dev/null"};
    CHECK(root.limits().available_now == MemoryLimits::none);
    CHECK(root.limits().ever == MemoryLimits::none);
    CHECK(read_memory_limits(no_directory_either).ever == MemoryLimits::none);

    root.file("proc/meminfo", "MemTotal: 18446744073709551615 kB\n");  // overflows in bytes
    CHECK(root.limits().ever == MemoryLimits::none);
}

TEST_CASE("Ring: this machine has a limit") {
    const auto limits = read_memory_limits();
    CHECK(limits.ever < MemoryLimits::none);
    CHECK(limits.available_now > 0);
    CHECK(limits.available_now <= limits.ever);
}

TEST_CASE("Ring: a lack of memory tells full now from can never fit") {
    const MemoryLimits limits{.available_now = 50,
                              .now_limited_by = "neighbours",
                              .ever = 100,
                              .ever_limited_by = "walls"};
    CHECK(check_memory(0, limits).has_value());
    CHECK(check_memory(50, limits).has_value());

    const auto now = check_memory(51, limits);
    REQUIRE_FALSE(now.has_value());
    const auto* full = now.error().as<RingMemory>();
    REQUIRE(full != nullptr);
    CHECK(full->can_ever_fit);
    CHECK(full->wanted == 51);
    CHECK(full->available == 50);
    CHECK(full->limited_by == "neighbours");

    CHECK(check_memory(100, limits).error().as<RingMemory>()->can_ever_fit);
    const auto never = check_memory(101, limits);
    REQUIRE_FALSE(never.has_value());
    CHECK_FALSE(never.error().as<RingMemory>()->can_ever_fit);
    CHECK(never.error().as<RingMemory>()->available == 100);
    CHECK(never.error().as<RingMemory>()->limited_by == "walls");
}
