// SPDX-License-Identifier: Apache-2.0
#include "ingest/processes.hpp"
#include "ingest/programs.hpp"
#include "ingest/raw_socket.hpp"
#include "ingest/samples.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <vector>

namespace rondo::bench {
namespace {

/// As much as rondo's client gathers of small samples.
constexpr std::uint64_t least_write = std::uint64_t{64} << 10;

struct Connection {
    int socket;
    std::span<const std::byte> left{};
    std::size_t source = 0;
};

}  // namespace

int raw_load(const RawLoadOptions& options) {
    const LoadProcess process = LoadProcess::fork(options.processes, options.connections);
    const std::uint64_t write_bytes = std::max(least_write, options.payload_bytes);
    std::vector<std::byte> memory(write_bytes * sources);
    fill_random(memory, 1);

    const int epoll = checked(::epoll_create1(0), "epoll_create1");
    std::vector<Connection> connections;
    for (std::uint32_t i = 0; i < process.connections(); ++i) {
        connections.push_back({connect_raw(options.port)});
        epoll_event event{.events = EPOLLOUT, .data = {.u32 = i}};
        checked(::epoll_ctl(epoll, EPOLL_CTL_ADD, connections.back().socket, &event), "epoll_ctl");
    }
    process.wait_for_start();
    for (std::array<epoll_event, 64> events{};;) {
        const int ready = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
        for (const epoll_event& event : std::span{events}.first(std::max(ready, 0))) {
            Connection& to = connections[event.data.u32];
            if (to.left.empty()) {
                to.left = std::span{memory}.subspan(write_bytes * to.source, write_bytes);
                to.source = (to.source + 1) % sources;
            }
            const ssize_t sent =
                ::send(to.socket, to.left.data(), to.left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0) to.left = to.left.subspan(static_cast<std::size_t>(sent));
        }
    }
}

}  // namespace rondo::bench
