// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace rondo::detail {

/// The shared objects of this process, by the names under which the dynamic linker knows them, each
/// once, in the order loaded. Such a name opens the very object again even if its file was moved or
/// deleted since, which a path from /proc/self/maps would not; and no procfs is needed.
[[nodiscard]] std::vector<std::string> loaded_objects();

}  // namespace rondo::detail
