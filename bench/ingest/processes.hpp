// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rondo::bench {

/// One of the processes that share the connections of a load.
class LoadProcess {
public:
    /// Forks `processes` children and returns in each of them. The parent stays inside: it says
    /// `ready` on stdout when all are, lets them start at a line on stdin, and ends them all when
    /// stdin ends or one of them fails. Called before the process has any thread.
    static LoadProcess fork(std::uint32_t processes, std::uint32_t connections);

    /// Which of all connections are its own: `first()` to `first() + connections()`.
    [[nodiscard]] std::uint32_t first() const noexcept { return first_; }
    [[nodiscard]] std::uint32_t connections() const noexcept { return connections_; }

    /// Says that this process is connected; returns when all may start.
    void wait_for_start() const;

private:
    std::uint32_t first_ = 0;
    std::uint32_t connections_ = 0;
    int ready_ = -1;
    int start_ = -1;
};

}  // namespace rondo::bench
