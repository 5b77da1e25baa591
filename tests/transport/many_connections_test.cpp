// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include <rondo/log.hpp>
#include <rondo/server.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <future>
#include <stdexcept>
#include <string_view>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

/// Raises the limit on descriptors to at least `wanted`, if the system allows it.
bool can_open(rlim_t wanted) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    if (limit.rlim_cur >= wanted) return true;
    if (limit.rlim_max < wanted) return false;
    limit.rlim_cur = wanted;
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// Lets this process open `count` more descriptors, and tells if it can.
bool leave_descriptors(int count) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
    int number = 0;  // the first one that is not allowed
    for (int free = 0; free < count || ::fcntl(number, F_GETFD) != -1; ++number) {
        if (::fcntl(number, F_GETFD) == -1) ++free;
    }
    limit.rlim_cur = static_cast<rlim_t>(number);
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::chrono::microseconds cpu_time() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& time) {
        return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
}

constexpr std::uint32_t few_payload = 100;
constexpr std::uint32_t few_waiting = 10;  // peers that find no descriptor left

/// In a process of its own: a server that runs out of descriptors. Exits with 0 if all is well.
int serve_with_few_descriptors(std::uint32_t io_threads, std::uint32_t few_free, const Pipe& from,
                               const Pipe& to) {
    std::atomic<int> warnings{0};
    set_log_sink([&](LogLevel, std::string_view) { ++warnings; });
    Listening listening{spec_of_bytes(few_payload),
                        {.batch_size = 1, .num_buffers = 64, .io_threads = io_threads}};
    if (!leave_descriptors(static_cast<int>(few_free))) return 1;
    to.put(listening.endpoint.port);
    if (!eventually([&] { return warnings == 1; })) return 2;
    if (from.get() != few_free) return 3;  // those have been served meanwhile
    const auto before = cpu_time();
    to.put(1);
    if (from.get() != 1) return 4;  // after half a second
    if (cpu_time() - before > std::chrono::milliseconds{200}) return 5;
    to.put(2);
    if (from.get() != few_free + few_waiting) return 6;  // now all have been served
    if (warnings != 1) return 7;
    const Payloads payloads{few_payload};
    Verifier verifier{payloads};
    listening.server.close();
    learn_rest(listening.server, verifier);
    return verifier.complaint().empty() && verifier.samples() == few_free + few_waiting ? 0 : 8;
}

}  // namespace

TEST_CASE("Tcp: a thousand connections at once, each served in full") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(100U, 9'000U);
    if (!can_open(2'200)) RONDO_SKIP("the hard limit of RLIMIT_NOFILE is below 2200");
    constexpr std::uint32_t peers = 1'000;
    constexpr std::uint32_t samples = 4;
    Listening listening{spec_of_bytes(payload),
                        {.batch_size = 50, .num_buffers = 3, .io_threads = io_threads}};
    const Payloads payloads{payload};
    std::vector<RawPeer> all;
    auto actors = std::async(std::launch::async, [&] {
        for (std::uint32_t id = 0; id < peers; ++id) all.emplace_back(listening.endpoint);
        for (RawPeer& peer : all) {
            if (peer.read(listening.greeting.size()) != listening.greeting) {
                throw std::runtime_error{"a wrong greeting"};
            }
        }
        for (std::uint32_t seq = 0; seq < samples; ++seq) {
            for (std::uint32_t id = 0; id < peers; ++id) all[id].write(payloads.one(id, seq));
        }
        for (RawPeer& peer : all) peer.half_close();
        for (RawPeer& peer : all) {
            if (peer.read_acks_to_end() != samples) throw std::runtime_error{"wrong acks"};
        }
    });
    Verifier verifier{payloads};
    learn(listening.server, verifier, peers * samples);
    CHECK(verifier.complaint() == "");
    actors.get();
    CHECK(listening.server.metrics().connections_accepted_total == peers);
    CHECK(listening.eventually([](const Metrics& now) { return now.active_connections == 0; }));
    CHECK(listening.server.metrics().truncated_samples_total == 0);
}

TEST_CASE("Tcp: listening without descriptors is an error, and succeeds once some are free") {
    if (sanitized) RONDO_SKIP("UBSan objects to how Asio's service unwinds when it has no reactor");
    const auto io_threads = GENERATE(1U, 2U, 4U);
    ChildProcess child{[io_threads] {
        set_log_sink({});
        const ServerOptions options{.batch_size = 1, .io_threads = io_threads};
        Server server = Server::create(spec_of_bytes(20), options).value();
        for (int free = 0; free <= 3 * static_cast<int>(io_threads); ++free) {
            if (!leave_descriptors(free)) return 1;
            const auto where = server.listen();
            if (where) return 2;
            if (where.error().code != ListenError::Code::system) return 3;
        }
        if (!leave_descriptors(3 * static_cast<int>(io_threads) + 1)) return 4;
        return server.listen() ? 0 : 5;
    }};
    CHECK(child.wait() == 0);
}

TEST_CASE("Tcp: a server without descriptors serves on, and accepts again when some are free") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto few_free = GENERATE(1U, 24U);
    Pipe to_child;
    Pipe to_parent;
    ChildProcess child{
        [&] { return serve_with_few_descriptors(io_threads, few_free, to_child, to_parent); }};
    const Endpoint endpoint{"127.0.0.1", static_cast<std::uint16_t>(to_parent.get())};
    const Payloads payloads{few_payload};
    const auto serve = [&](RawPeer& peer, std::uint32_t id) {
        (void)peer.read(21);
        peer.write(payloads.one(id, 0));
        peer.read_acks(1);
    };
    std::vector<RawPeer> peers;
    for (std::uint32_t id = 0; id < few_free + few_waiting; ++id) peers.emplace_back(endpoint);
    for (std::uint32_t id = 0; id < few_free; ++id) serve(peers[id], id);
    to_child.put(few_free);
    REQUIRE(to_parent.get() == 1);
    // Not a wait for anything: the time in which a server that spins would burn its CPU.
    std::this_thread::sleep_for(std::chrono::milliseconds{500});
    to_child.put(1);
    REQUIRE(to_parent.get() == 2);
    for (std::uint32_t id = 0; id < few_free; ++id) peers[id].close();
    for (std::uint32_t id = few_free; id < few_free + few_waiting; ++id) {
        serve(peers[id], id);
        peers[id].close();
    }
    to_child.put(few_free + few_waiting);
    peers.clear();
    CHECK(child.wait() == 0);
}
