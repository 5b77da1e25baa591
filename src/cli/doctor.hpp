// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo::cli {

/// As the fields of `ServerOptions` that the flags are named after.
struct DoctorOptions {
    std::optional<int> pin_device;
    std::string cudart;
    std::vector<std::string> site_directories;
    bool json = false;
};

/// Page-locks a small ring as a server would, and prints all that came to light. Returns the
/// program's exit code: `exit_ok` only if the ring was page-locked.
[[nodiscard]] int run_doctor(const DoctorOptions& options);

}  // namespace rondo::cli
