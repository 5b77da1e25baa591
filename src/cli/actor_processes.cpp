// SPDX-License-Identifier: Apache-2.0
#include "cli/actor_processes.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT: POSIX wants it declared here

namespace rondo::cli {
namespace {

/// What posix_spawn is told about a child.
class SpawnPlan {
public:
    SpawnPlan() noexcept {
        ::posix_spawn_file_actions_init(&files_);
        ::posix_spawnattr_init(&attributes_);
        // Sockets of the server: a copy in a child would keep a connection open that we closed.
        ::posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
        ::posix_spawnattr_setpgroup(&attributes_, 0);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;
    ~SpawnPlan() {
        ::posix_spawn_file_actions_destroy(&files_);
        ::posix_spawnattr_destroy(&attributes_);
    }

    [[nodiscard]] int spawn(pid_t& pid, const char* program, char* const* argv) const noexcept {
        return ::posix_spawn(&pid, program, &files_, &attributes_, argv, environ);
    }

private:
    posix_spawn_file_actions_t files_{};
    posix_spawnattr_t attributes_{};
};

}  // namespace

ActorProcesses::~ActorProcesses() {
    signal_all(SIGKILL);
    for (const pid_t pid : pids_) {
        if (pid == 0) continue;
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

tl::expected<void, std::string> ActorProcesses::start(const std::vector<std::string>& arguments) {
    std::vector<std::string> words{"rondo"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);

    pids_.reserve(pids_.size() + 1);  // once it runs, nothing may fail
    pid_t pid = 0;
    // The link and not what it points to: it still works when the file was replaced meanwhile.
    if (const int error = SpawnPlan{}.spawn(pid, "/proc/self/exe", argv.data()); error != 0) {
        return tl::unexpected{std::string{"cannot start a process: "} + std::strerror(error)};
    }
    pids_.push_back(pid);
    ++running_;
    return {};
}

std::vector<ActorProcesses::Ended> ActorProcesses::reap() {
    std::vector<Ended> ended;
    for (std::size_t index = 0; index < pids_.size(); ++index) {
        int status = 0;
        if (pids_[index] == 0 || ::waitpid(pids_[index], &status, WNOHANG) <= 0) continue;
        pids_[index] = 0;
        --running_;
        ended.push_back({index, status});
    }
    return ended;
}

void ActorProcesses::signal_all(int number) noexcept {
    for (const pid_t pid : pids_) {
        if (pid != 0) ::kill(pid, number);
    }
}

std::string ActorProcesses::Ended::text() const {
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        return "was killed by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
    }
    return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

void end_with_parent(pid_t parent) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(EXIT_FAILURE);
}

}  // namespace rondo::cli
