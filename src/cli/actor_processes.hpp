// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tl/expected.hpp>

#include <cstddef>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rondo::cli {

/// Child processes that run this same program. Whatever happens to the owner, none is left behind:
/// the destructor kills and waits for those that still run, and a child ends by itself when its
/// parent dies (see `end_with_parent`). Thread-safety: none.
class ActorProcesses {
public:
    ActorProcesses() = default;
    ActorProcesses(const ActorProcesses&) = delete;
    ActorProcesses& operator=(const ActorProcesses&) = delete;
    ~ActorProcesses();

    /// Starts one more with these arguments. It inherits standard input, output and error, and is
    /// in a process group of its own: Ctrl-C is its parent's affair.
    /// Errors: a sentence.
    [[nodiscard]] tl::expected<void, std::string> start(const std::vector<std::string>& arguments);

    /// A process that is no more. Processes count from 0 in the order in which they were started.
    struct Ended {
        std::size_t index;
        int status;  ///< as from waitpid

        [[nodiscard]] bool well() const noexcept { return status == 0; }

        /// E.g. `was killed by signal 9 (Killed)`, `ended with exit code 1`.
        [[nodiscard]] std::string text() const;
    };

    /// Those that ended since the last call. Never waits.
    [[nodiscard]] std::vector<Ended> reap();

    [[nodiscard]] std::size_t running() const noexcept { return running_; }

    /// Sends the signal to all that run.
    void signal_all(int number) noexcept;

private:
    std::vector<pid_t> pids_;  // 0 for one that was waited for
    std::size_t running_ = 0;
};

/// For the child: ends this process when `parent` dies, also if it died before this call.
void end_with_parent(pid_t parent) noexcept;

}  // namespace rondo::cli
