// SPDX-License-Identifier: Apache-2.0
#include "ring/memory_limits.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace rondo::detail {
namespace {

namespace fs = std::filesystem;

/// Empty when the file cannot be read. Files of /proc tell no size, hence the iterators.
std::string read_file(const fs::path& path) {
    std::ifstream file{path, std::ios::binary};
    if (!file) return {};
    return {std::istreambuf_iterator<char>{file}, {}};
}

/// The number that `text` begins with, after blanks. Nothing for "max", "unlimited" or garbage.
std::optional<std::uint64_t> leading_number(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t:"), text.size()));
    std::uint64_t number = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
    if (result.ec != std::errc{}) return std::nullopt;
    return number;
}

/// Calls `use` with each line of `text`.
template <typename Use>
void for_each_line(std::string_view text, Use use) {
    while (!text.empty()) {
        const auto end = text.find('\n');
        use(text.substr(0, end));
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
}

/// The number on the line that starts with `key`, as in meminfo, memory.stat and limits.
std::optional<std::uint64_t> field(std::string_view text, std::string_view key) {
    std::optional<std::uint64_t> found;
    for_each_line(text, [&](std::string_view line) {
        if (!found && line.starts_with(key)) found = leading_number(line.substr(key.size()));
    });
    return found;
}

/// A field in kB, in bytes.
std::optional<std::uint64_t> field_kib(std::string_view text, std::string_view key) {
    const auto kib = field(text, key);
    if (!kib || *kib > (MemoryLimits::none >> 10)) return std::nullopt;
    return *kib << 10;
}

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

void limit_now(MemoryLimits& limits, std::uint64_t bytes, std::string_view by) {
    if (bytes >= limits.available_now) return;
    limits.available_now = bytes;
    limits.now_limited_by = by;
}

void limit_ever(MemoryLimits& limits, std::uint64_t bytes, std::string_view by) {
    if (bytes >= limits.ever) return;
    limits.ever = bytes;
    limits.ever_limited_by = by;
}

/// A limit on an amount of which `used` is taken.
void limit_both(MemoryLimits& limits, std::uint64_t bytes, std::uint64_t used,
                std::string_view by) {
    limit_now(limits, minus(bytes, used), by);
    limit_ever(limits, bytes, by);
}

void read_machine(MemoryLimits& limits, const fs::path& root) {
    const auto meminfo = read_file(root / "proc/meminfo");
    if (const auto total = field_kib(meminfo, "MemTotal:")) limit_ever(limits, *total, "MemTotal");
    if (const auto free = field_kib(meminfo, "MemAvailable:")) {
        limit_now(limits, *free, "MemAvailable");
    }
    constexpr std::uint64_t never_overcommit = 2;
    if (leading_number(read_file(root / "proc/sys/vm/overcommit_memory")) == never_overcommit) {
        if (const auto commit = field_kib(meminfo, "CommitLimit:")) {
            limit_both(limits, *commit, field_kib(meminfo, "Committed_AS:").value_or(0),
                       "CommitLimit (vm.overcommit_memory is 2)");
        }
    }
}

/// Read from /proc rather than with getrlimit, so that limits and usage come from one place.
void read_resource_limits(MemoryLimits& limits, const fs::path& root) {
    const auto rlimits = read_file(root / "proc/self/limits");
    const auto status = read_file(root / "proc/self/status");
    if (const auto most = field(rlimits, "Max address space")) {
        limit_both(limits, *most, field_kib(status, "VmSize:").value_or(0), "RLIMIT_AS");
    }
    if (const auto most = field(rlimits, "Max data size")) {
        limit_both(limits, *most, field_kib(status, "VmData:").value_or(0), "RLIMIT_DATA");
    }
}

/// The files of a hierarchy's cgroups, which v1 and v2 name differently.
struct CgroupFiles {
    const char* mount;
    const char* limit;
    const char* usage;
    const char* reclaimable;  ///< the field of memory.stat: file cache given back on demand
};
constexpr CgroupFiles cgroup_v2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
constexpr CgroupFiles cgroup_v1{"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes", "total_inactive_file "};

void read_cgroup(MemoryLimits& limits, const fs::path& root, const CgroupFiles& files,
                 const fs::path& below_mount) {
    const auto directory = below_mount.empty() ? fs::path{files.mount} : files.mount / below_mount;
    const auto most = leading_number(read_file(root / directory / files.limit));
    constexpr std::uint64_t v1_none = std::uint64_t{1} << 62;  // it says LONG_MAX, page-rounded
    if (!most || *most >= v1_none) return;
    const auto used = leading_number(read_file(root / directory / files.usage)).value_or(0);
    const auto stat = read_file(root / directory / "memory.stat");
    const auto reclaimable = field(stat, files.reclaimable).value_or(0);
    limit_both(limits, *most, minus(used, reclaimable),
               std::string{"cgroup "} + files.limit + " of /" + directory.string());
}

/// The cgroup at `path` and all its ancestors. In a container the path is often that of the host,
/// of which only the end, mounted as the root, is there; what is missing limits nothing.
void read_cgroup_and_ancestors(MemoryLimits& limits, const fs::path& root, const CgroupFiles& files,
                               std::string_view path) {
    auto below_mount = fs::path{path}.lexically_normal().relative_path();
    for (; !below_mount.empty(); below_mount = below_mount.parent_path()) {
        read_cgroup(limits, root, files, below_mount);
    }
    read_cgroup(limits, root, files, {});
}

/// Lines of /proc/self/cgroup are `id:controllers:path`; v2's is `0::path`.
void read_cgroups(MemoryLimits& limits, const fs::path& root) {
    for_each_line(read_file(root / "proc/self/cgroup"), [&](std::string_view line) {
        const auto first = line.find(':');
        if (first == line.npos) return;
        const auto second = line.find(':', first + 1);
        if (second == line.npos) return;
        const auto controllers = line.substr(first + 1, second - first - 1);
        const auto path = line.substr(second + 1);
        if (controllers.empty()) read_cgroup_and_ancestors(limits, root, cgroup_v2, path);
        if (controllers == "memory") read_cgroup_and_ancestors(limits, root, cgroup_v1, path);
    });
}

}  // namespace

MemoryLimits read_memory_limits(const fs::path& root) {
    MemoryLimits limits;
    read_machine(limits, root);
    read_resource_limits(limits, root);
    read_cgroups(limits, root);
    return limits;
}

tl::expected<void, PinError> check_memory(std::uint64_t wanted, const MemoryLimits& limits) {
    if (wanted > limits.ever) {
        return tl::unexpected{PinError{RingMemory{.wanted = wanted,
                                                  .available = limits.ever,
                                                  .can_ever_fit = false,
                                                  .limited_by = limits.ever_limited_by}}};
    }
    if (wanted > limits.available_now) {
        return tl::unexpected{PinError{RingMemory{.wanted = wanted,
                                                  .available = limits.available_now,
                                                  .can_ever_fit = true,
                                                  .limited_by = limits.now_limited_by}}};
    }
    return {};
}

}  // namespace rondo::detail
