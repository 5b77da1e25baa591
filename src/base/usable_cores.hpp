// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace rondo::detail {

/// Cores that this process may really use: its affinity mask, further limited by the cgroup's CPU
/// quota (v2 `cpu.max` of the process's cgroup and its ancestors, rounded up). At least 1. `root`
/// is where `proc` and `sys` are looked for.
[[nodiscard]] unsigned usable_cores(const std::filesystem::path& root = "/");

}  // namespace rondo::detail
