// SPDX-License-Identifier: Apache-2.0
// A server that closes, whatever its connections are doing. That `close` returns is what these
// tests are about: a case that hangs is a failure.
#include "server/server_core.hpp"
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include "transport/io_threads.hpp"
#include "transport/tcp_connection.hpp"
#include "wire/framing.hpp"
#include "wire/greeting.hpp"
#include <rondo/server.hpp>
#include <rondo/transport.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/tcp.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

using std::chrono::milliseconds;

/// For peers that do not leave by themselves: each close takes this long.
constexpr milliseconds brief{100};

/// For peers that do: no healthy close takes this long.
constexpr milliseconds long_enough{60'000};

ServerOptions ring(std::uint64_t batch_size, std::uint64_t num_buffers, std::uint32_t io_threads) {
    return {.batch_size = batch_size, .num_buffers = num_buffers, .io_threads = io_threads};
}

/// A greeting that no socket buffer holds.
const SampleSpec& endless_greeting() {
    static const SampleSpec spec = [] {
        std::vector<ArraySpec> arrays;
        for (int i = 0; i < 24'000; ++i) {
            arrays.push_back({std::to_string(i), dtype::uint8, std::vector<std::uint64_t>(64, 1)});
        }
        return SampleSpec::create(std::move(arrays)).value();
    }();
    return spec;
}

/// Lets a test reach behind the server's face.
class CoreTap final : public Transport {
public:
    explicit CoreTap(std::shared_ptr<rondo::detail::ServerCore>& core) : core_{core} {}
    tl::expected<void, ListenError> start(Ingress ingress) override {
        core_ = rondo::detail::IngressAccess::core(ingress);
        return {};
    }
    void stop() noexcept override {}

private:
    std::shared_ptr<rondo::detail::ServerCore>& core_;
};

/// Closes on another thread, so that the peers can read what comes meanwhile.
std::future<void> closing(Server& server) {
    return std::async(std::launch::async, [&server] { server.close(); });
}

void check_closed(const Server& server) {
    const Metrics metrics = server.metrics();
    CHECK(metrics.active_connections == 0);
    CHECK(metrics.side_buffer_bytes == 0);
    CHECK(metrics.producers_waiting == 0);
}

}  // namespace

TEST_CASE("Tcp: closing ends idle connections with an orderly end of the stream") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 20'000U);
    Listening listening{spec_of_bytes(payload), ring(2, 2, io_threads), {.linger = long_enough}};
    std::vector<std::future<std::uint64_t>> ends;
    std::vector<RawPeer> peers;
    for (int i = 0; i < 8; ++i) peers.push_back(listening.greeted());
    for (RawPeer& peer : peers) {
        ends.push_back(std::async(std::launch::async, [&peer] {
            const std::uint64_t acks = peer.read_acks_to_end();
            peer.close();
            return acks;
        }));
    }
    listening.server.close();
    for (auto& acks : ends) CHECK(acks.get() == 0);
    check_closed(listening.server);
}

TEST_CASE("Tcp: closing ends connections within a sample") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 8'192U, 8'193U, 3'000'000U);
    Listening listening{spec_of_bytes(payload), ring(1, 4, io_threads), {.linger = long_enough}};
    const Payloads payloads{payload};
    const Bytes samples = payloads.many(0, 0, 3);
    RawPeer peer = listening.greeted();
    peer.write(std::span{samples}.first(2 * payload + payload / 2));
    peer.wait_until_received();
    REQUIRE(
        listening.eventually([](const Metrics& now) { return now.samples_received_total == 2; }));
    auto closed = closing(listening.server);
    CHECK(peer.read_acks_to_end() == 2);
    peer.close();
    closed.get();
    check_closed(listening.server);
    Verifier verifier{payloads};
    learn_rest(listening.server, verifier);
    CHECK(verifier.samples() == 2);
    CHECK(verifier.complaint() == "");
}

TEST_CASE("Tcp: a connection that waits for room at closing gets exactly the acks of the ring") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 9'000U);
    Listening listening{spec_of_bytes(payload), ring(2, 3, io_threads), {.linger = long_enough}};
    const Payloads payloads{payload};
    std::vector<RawPeer> peers;
    for (std::uint32_t id = 0; id < 4; ++id) {
        peers.push_back(listening.greeted());
        peers.back().write(payloads.many(id, 0, 20));
    }
    REQUIRE(listening.eventually([](const Metrics& now) { return now.producers_waiting == 4; }));
    auto closed = closing(listening.server);
    // What the server has not read must not turn its end into a reset, which would take acks along.
    REQUIRE(
        eventually([&] { return !listening.server.try_insert(Sample{listening.server.spec()}); }));
    std::vector<std::uint64_t> acks;
    for (RawPeer& peer : peers) {
        acks.push_back(peer.read_acks_to_end());
        peer.close();
    }
    closed.get();
    check_closed(listening.server);
    Verifier verifier{payloads};
    learn_rest(listening.server, verifier);
    CHECK(verifier.samples() == 6);
    CHECK(verifier.complaint() == "");
    for (std::uint32_t id = 0; id < 4; ++id) CHECK(acks[id] == verifier.samples_of(id));
}

TEST_CASE("Tcp: a peer that never reads its greeting holds up no close") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Listening listening{endless_greeting(), ring(1, 1, io_threads), {.linger = brief}};
    std::vector<RawPeer> peers;
    for (int i = 0; i < 10; ++i) {
        peers.emplace_back(listening.endpoint, RawPeer::Options{.receive_buffer = 4'096});
    }
    const bool accepted = GENERATE(true, false);
    if (accepted) {
        REQUIRE(
            listening.eventually([](const Metrics& now) { return now.active_connections == 10; }));
    }
    listening.server.close();
    check_closed(listening.server);
}

TEST_CASE("Tcp: a connection that begins when its thread is leaving does not begin to greet") {
    Server server = Server::create(endless_greeting(), ring(1, 1, 1)).value();
    std::shared_ptr<rondo::detail::ServerCore> core;
    REQUIRE(server.add(std::make_unique<CoreTap>(core)).has_value());
    rondo::detail::IoThread io{0};
    io.leaving = true;
    asio::ip::tcp::acceptor acceptor{io.context, {asio::ip::address_v4::loopback(), 0}};
    RawPeer peer{{"127.0.0.1", acceptor.local_endpoint().port()}, {.receive_buffer = 4'096}};
    auto shared = std::make_shared<const rondo::detail::TcpShared>(rondo::detail::TcpShared{
        core, wire::PayloadFramer{server.spec()}, wire::encode_greeting(server.spec()).value(),
        std::make_shared<rondo::detail::SideBuffers>(1, server.spec().payload_bytes()), brief});
    auto connection = std::make_shared<rondo::detail::TcpConnection>(acceptor.accept(), io, shared);
    asio::co_spawn(io.context, rondo::detail::TcpConnection::run(std::move(connection)),
                   asio::detached);
    io.work.reset();
    io.context.run_for(patience);
    CHECK(io.context.stopped());
    CHECK(peer.read_acks_to_end() == 0);
}

TEST_CASE("Tcp: a peer that reads its greeting slowly gets all of it") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Listening listening{endless_greeting(), ring(1, 1, io_threads), {.linger = brief}};
    RawPeer peer{listening.endpoint, {.receive_buffer = 65'536}};
    CHECK(peer.read(listening.greeting.size()) == listening.greeting);
    peer.write(Bytes(24'000));
    peer.read_acks(1);
}

TEST_CASE("Tcp: acks that a peer has yet to read when the server closes all reach it") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const bool half_closed = GENERATE(false, true);
    constexpr std::uint32_t batch = 1U << 20U;
    constexpr std::uint32_t batches = 8;
    Listening listening{
        spec_of_bytes(1), ring(batch, batches, io_threads), {.linger = long_enough}};
    RawPeer peer = listening.greeted({.receive_buffer = 4'096});
    peer.write(Bytes(batch * batches));
    if (half_closed) peer.half_close();
    REQUIRE(listening.eventually(
        [](const Metrics& now) { return now.samples_received_total == batch * batches; }));
    auto closed = closing(listening.server);
    REQUIRE(
        eventually([&] { return !listening.server.try_insert(Sample{listening.server.spec()}); }));
    CHECK(peer.read_acks_to_end() == batch * batches);
    peer.close();
    closed.get();
    check_closed(listening.server);
}

TEST_CASE("Tcp: a peer that never reads its acks holds up closing no longer than linger") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    constexpr std::uint32_t batch = 1U << 20U;
    constexpr std::uint32_t batches = 8;
    Listening listening{spec_of_bytes(1), ring(batch, batches, io_threads), {.linger = brief}};
    RawPeer peer = listening.greeted({.receive_buffer = 4'096});
    peer.write(Bytes(batch * batches));
    REQUIRE(listening.eventually(
        [](const Metrics& now) { return now.samples_received_total == batch * batches; }));
    listening.server.close();
    check_closed(listening.server);
}

TEST_CASE("Tcp: a peer that floods a closing server holds it up no longer than linger") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 20'000U);
    const auto linger = GENERATE(milliseconds{0}, brief);
    const Payloads payloads{payload};
    const Bytes samples = payloads.many(0, 0, 50);
    Listening listening{spec_of_bytes(payload), ring(2, 2, io_threads), {.linger = linger}};
    std::vector<RawPeer> peers;
    std::vector<std::thread> floods;
    for (int i = 0; i < 3; ++i) peers.push_back(listening.greeted());
    for (RawPeer& peer : peers) floods.emplace_back([&] { peer.flood(samples); });
    const bool received =
        listening.eventually([](const Metrics& now) { return now.samples_received_total == 4; });
    listening.server.close();
    // Each flood ends because its connection has ended.
    for (std::thread& flood : floods) flood.join();
    CHECK(received);
    check_closed(listening.server);
}

TEST_CASE("Tcp: closing amid a storm of connects leaves nobody behind") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const bool large_greeting = GENERATE(false, true);
    const int rounds = large_greeting ? 2 : 4;
    for (int round = 0; round < rounds; ++round) {
        std::optional<Listening> listening;
        listening.emplace(large_greeting ? endless_greeting() : spec_of_bytes(20),
                          ring(1, 2, io_threads), TcpOptions{.linger = brief});
        std::atomic<bool> stop{false};
        std::atomic<int> connected{0};
        std::vector<std::thread> storms;
        for (int i = 0; i < 3; ++i) {
            storms.emplace_back([&, to = listening->endpoint] {
                std::vector<RawPeer> peers;
                try {
                    while (!stop && peers.size() < 150) {
                        peers.emplace_back(to, RawPeer::Options{.receive_buffer = 4'096});
                        if (!large_greeting) peers.back().write(Bytes(10 + peers.size() % 20));
                        ++connected;
                    }
                } catch (const std::exception&) {
                    // Refused or reset: the server has closed.
                }
            });
        }
        const bool begun = eventually([&] { return connected >= 10 * (round + 1); });
        listening->server.close();
        const Metrics metrics = listening->server.metrics();
        stop = true;
        for (std::thread& storm : storms) storm.join();
        CHECK(begun);
        CHECK(metrics.active_connections == 0);
        listening.reset();
    }
}

TEST_CASE("Tcp: several threads close one server, and each returns when it is closed") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Listening listening{spec_of_bytes(20), ring(2, 2, io_threads), {.linger = brief}};
    const Payloads payloads{20};
    RawPeer peer = listening.greeted();
    peer.write(payloads.many(0, 0, 30));
    std::vector<std::future<std::uint64_t>> closers;
    for (int i = 0; i < 4; ++i) {
        closers.push_back(std::async(std::launch::async, [&] {
            listening.server.close();
            return listening.server.metrics().active_connections;
        }));
    }
    for (auto& active : closers) CHECK(active.get() == 0);
}

TEST_CASE("Tcp: destroying a server closes it, and its batches live on") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 20'000U);
    const Payloads payloads{payload};
    std::optional<Batch> batch;
    std::optional<RawPeer> peer;
    {
        Listening listening{spec_of_bytes(payload), ring(2, 2, io_threads), {.linger = brief}};
        peer.emplace(listening.greeted());
        peer->write(payloads.many(0, 0, 30));
        auto sampled = listening.server.blocking_sample({.deadline = patience});
        REQUIRE(sampled.has_value());
        batch.emplace(std::move(*sampled));
    }
    Verifier verifier{payloads};
    verifier.check(*batch);
    CHECK(verifier.samples() == 2);
    CHECK(verifier.complaint() == "");
    peer->read_to_end();
}

TEST_CASE("Tcp: without linger a close does not wait for peers") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto payload = GENERATE(20U, 20'000U);
    for (int round = 0; round < 10; ++round) {
        Listening listening{
            spec_of_bytes(payload), ring(1, 2, io_threads), {.linger = milliseconds{0}}};
        const Payloads payloads{payload};
        RawPeer peer = listening.greeted();
        peer.write(payloads.many(0, 0, 20));
        if (round % 2 == 0) {
            REQUIRE(listening.eventually(
                [](const Metrics& now) { return now.samples_received_total == 2; }));
        }
        listening.server.close();
        check_closed(listening.server);
        peer.read_to_end();
    }
}
