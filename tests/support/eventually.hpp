// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace rondo::test {

/// No healthy run waits this long for anything, not even under a sanitizer on a loaded machine.
inline constexpr std::chrono::seconds patience{120};

/// Waits until `condition()` holds; false if it still does not after `patience`. For what has no
/// event to wait for: a metric, the state of another thread or of the kernel.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
}

}  // namespace rondo::test
