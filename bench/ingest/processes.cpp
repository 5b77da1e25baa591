// SPDX-License-Identifier: Apache-2.0
#include "ingest/processes.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace rondo::bench {
namespace {

struct Pipe {
    int read_end = -1;
    int write_end = -1;
};

Pipe make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::system_error{errno, std::system_category(), "pipe"};
    return {ends[0], ends[1]};
}

/// Children end with the parent (PR_SET_PDEATHSIG), so it need not know them.
[[noreturn]] void lead(std::uint32_t processes, const Pipe& ready, const Pipe& start) {
    std::thread{[] {
        ::wait(nullptr);  // none ends by itself
        std::_Exit(EXIT_FAILURE);
    }}.detach();
    char byte = 0;
    for (std::uint32_t i = 0; i < processes; ++i) {
        if (::read(ready.read_end, &byte, 1) != 1) std::_Exit(EXIT_FAILURE);
    }
    std::puts("ready");
    std::fflush(stdout);
    std::string line;
    if (std::getline(std::cin, line)) ::close(start.write_end);
    while (std::getline(std::cin, line)) {
    }
    std::_Exit(EXIT_SUCCESS);
}

}  // namespace

LoadProcess LoadProcess::fork(std::uint32_t processes, std::uint32_t connections) {
    const Pipe ready = make_pipe();
    const Pipe start = make_pipe();
    for (std::uint32_t i = 0; i < processes; ++i) {
        const ::pid_t child = ::fork();
        if (child < 0) throw std::system_error{errno, std::system_category(), "fork"};
        if (child > 0) continue;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::close(start.write_end);
        LoadProcess self;
        self.first_ = connections * i / processes;
        self.connections_ = connections * (i + 1) / processes - self.first_;
        self.ready_ = ready.write_end;
        self.start_ = start.read_end;
        return self;
    }
    ::close(ready.write_end);
    lead(processes, ready, start);
}

void LoadProcess::wait_for_start() const {
    char byte = 1;
    if (::write(ready_, &byte, 1) != 1) std::_Exit(EXIT_FAILURE);
    (void)!::read(start_, &byte, 1);  // its end is the sign
}

}  // namespace rondo::bench
