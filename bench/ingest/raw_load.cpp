// SPDX-License-Identifier: Apache-2.0
#include "ingest/processes.hpp"
#include "ingest/programs.hpp"
#include "ingest/raw_socket.hpp"
#include "ingest/samples.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace rondo::bench {
namespace {

/// As much as rondo's client gathers of small samples.
constexpr std::uint64_t least_write = std::uint64_t{64} << 10;

// A blocking call of many bytes: the kernel wakes the thread as seldom as it can.
[[noreturn]] void send_all(int socket, std::span<const std::byte> memory) {
    while (::send(socket, memory.data(), memory.size(), MSG_NOSIGNAL) > 0) {
    }
    std::_Exit(EXIT_FAILURE);
}

}  // namespace

int raw_load(const RawLoadOptions& options) {
    const LoadProcess process = LoadProcess::fork(options.processes, options.connections);
    std::vector<std::byte> memory(std::max(least_write, options.payload_bytes) * sources);
    fill_random(memory, 1);
    std::vector<int> sockets(process.connections());
    std::ranges::generate(sockets, [&] { return connect_raw(options.port); });
    process.wait_for_start();
    std::vector<std::jthread> threads;
    threads.reserve(sockets.size());
    for (const int socket : sockets) threads.emplace_back(send_all, socket, std::span{memory});
    return EXIT_FAILURE;  // after the threads, which do not end by themselves
}

}  // namespace rondo::bench
