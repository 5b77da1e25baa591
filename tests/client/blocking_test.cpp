// SPDX-License-Identifier: Apache-2.0
#include "client/support.hpp"
#include <rondo/blocking_tcp_client.hpp>

#include <atomic>
#include <future>
#include <sys/wait.h>
#include <thread>

namespace {

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;
using Code = SendError::Code;

constexpr int small_receive_buffer = 16 * 1024;
constexpr std::size_t unsendable = std::size_t{24} << 20U;

BlockingTcpClient blocking_client(ScriptedPeer& peer, const SampleSpec& spec,
                                  TcpClientOptions options = {}) {
    auto connecting = std::async(std::launch::async, [&] {
        return BlockingTcpClient::connect("127.0.0.1", peer.port(), spec, options);
    });
    peer.accept();
    peer.greet(spec);
    auto client = connecting.get();
    if (!client) throw std::runtime_error{client.error().message()};
    return std::move(*client);
}

}  // namespace

TEST_CASE("Client: the blocking form sends, waits and closes") {
    const std::uint64_t payload = GENERATE(as<std::uint64_t>{}, 10, 9'000, unsendable);
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(payload);
    BlockingTcpClient client = blocking_client(peer, spec, {.max_in_flight = 2});
    std::thread reader{[&] {
        for (std::uint32_t i = 0; i < 6; ++i) {
            if (peer.read_exactly(payload) != payload_of(filled(spec, i))) return;
            peer.ack(1);
        }
    }};
    for (std::uint32_t i = 0; i < 5; ++i) REQUIRE(client.send(filled(spec, i)).has_value());
    REQUIRE(client.wait().has_value());
    CHECK(*client.try_send(filled(spec, 5)));
    CHECK(client.close() == 0);
    CHECK_FALSE(client.was_open());
    CHECK(client.in_flight() == 0);
    reader.join();
}

TEST_CASE("Client: who waits to connect or to close is asked whether to go on") {
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    int asked = 0;
    const auto twice = [&asked] { return ++asked % 2 == 1; };
    const auto silent = BlockingTcpClient::connect("127.0.0.1", peer.port(), spec, {}, twice);
    CHECK(silent.error().code == ConnectError::Code::cancelled);
    CHECK(asked == 2);

    ScriptedPeer other;
    BlockingTcpClient client = blocking_client(other, spec);
    REQUIRE(client.send(filled(spec, 0)).has_value());
    CHECK(client.close({}, twice) == 1);
    CHECK(asked == 4);
    CHECK_FALSE(client.was_open());
}

TEST_CASE("Client: blocking connects fail with the same errors") {
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    const auto silent = BlockingTcpClient::connect("127.0.0.1", peer.port(), spec, {0, 20ms});
    CHECK(silent.error().code == ConnectError::Code::timed_out);
    peer.stop_listening();
    const auto refused = BlockingTcpClient::connect("127.0.0.1", peer.port(), spec);
    CHECK(refused.error().code == ConnectError::Code::refused);
}

TEST_CASE("Client: blocking calls give up at their deadline") {
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, unsendable));
    const LogCapture log;
    BlockingTcpClient client = blocking_client(peer, spec, {.max_in_flight = 1});
    const auto payload = spec.payload_bytes();
    const auto first = client.send(filled(spec, 1), 5ms);
    CHECK(first.has_value() == (payload == 10));
    CHECK(client.in_flight() == 1);
    const auto second = client.send(filled(spec, 2), 5ms);
    CHECK(second.error().code == Code::timed_out);
    CHECK(second.error().sent == 0);
    CHECK(client.wait(5ms).error().code == Code::timed_out);
    CHECK((peer.read_exactly(payload) == payload_of(filled(spec, 1))));
    CHECK(client.close(5ms) == 1);
}

TEST_CASE("Client: eight threads share one blocking client") {
    constexpr std::size_t threads = 8;
    constexpr std::size_t each = 500;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, 9'000));
    BlockingTcpClient client = blocking_client(peer, spec, {.max_in_flight = 5});
    std::thread reader{[&] {
        for (std::size_t i = 0; i < threads * each; ++i) {
            peer.read_exactly(spec.payload_bytes());
            peer.ack(1);
        }
    }};
    std::atomic<std::size_t> sent{0};
    std::vector<std::thread> senders;
    for (std::size_t i = 0; i < threads; ++i) {
        senders.emplace_back([&] {
            const Sample sample{spec};
            for (std::size_t j = 0; j < each; ++j) {
                if (client.send(sample).has_value()) ++sent;
            }
            if (!client.wait().has_value()) sent = 0;
        });
    }
    for (auto& sender : senders) sender.join();
    reader.join();
    CHECK(sent == threads * each);
    CHECK(client.close() == 0);
}

TEST_CASE("Client: the peer's death ends blocking calls") {
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, unsendable));
    BlockingTcpClient client = blocking_client(peer, spec, {.max_in_flight = 1});
    const auto payload = spec.payload_bytes();
    std::vector<std::future<std::uint64_t>> calls;
    std::atomic<std::uint64_t> sent{0};
    for (int i = 0; i < 4; ++i) {
        calls.push_back(std::async(std::launch::async, [&] {
            const Sample sample{spec};
            for (;;) {
                const auto result = client.send(sample);
                sent += result ? 1 : result.error().sent;
                if (!result) return result.error().unacknowledged;
            }
        }));
    }
    peer.read_exactly(std::min<std::uint64_t>(payload, 1000));
    calls.push_back(std::async(std::launch::async, [&] {
        const auto result = client.wait();
        return result ? 0 : result.error().unacknowledged;
    }));
    peer.reset();
    for (auto& call : calls) CHECK(call.get() == 1);
    CHECK(sent == 1);
    CHECK(client.close() == 1);
}

TEST_CASE("Client: blocking clients come and go on several threads at once") {
    std::vector<std::thread> threads;
    std::atomic<int> worked{0};
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int j = 0; j < 25; ++j) {
                ScriptedPeer peer;
                const auto spec = spec_of_bytes(10);
                BlockingTcpClient client = blocking_client(peer, spec);
                if (!client.send(Sample{spec}).has_value()) continue;
                peer.read_exactly(10);
                peer.ack(1);
                if (client.wait().has_value()) ++worked;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(worked == 100);
}

TEST_CASE("Client: a blocking client is moved and assigned like a value") {
    ScriptedPeer first_peer;
    ScriptedPeer second_peer;
    const auto spec = spec_of_bytes(10);
    BlockingTcpClient client = blocking_client(first_peer, spec);
    client = blocking_client(second_peer, spec);
    CHECK(first_peer.read_to_end().empty());
    BlockingTcpClient moved{std::move(client)};
    CHECK(moved.send(Sample{spec}).has_value());
    second_peer.read_exactly(10);
    second_peer.ack(1);
    CHECK(moved.close() == 0);
}

// A child of a threaded program under TSan may not do anything at all.
#ifndef __SANITIZE_THREAD__
TEST_CASE("Client: a forked child's calls are refused, and it may connect anew") {
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    std::optional<BlockingTcpClient> client{blocking_client(peer, spec)};
    const ::pid_t child = ::fork();
    if (child == 0) {
        const auto sent = client->send(Sample{spec});
        const bool refused = !sent && sent.error().code == Code::connection_closed &&
                             sent.error().detail.find("forked") != std::string::npos;
        const bool others = !client->wait() && !client->try_send(Sample{spec}) &&
                            client->close() == 0 && client->in_flight() == 0 && !client->was_open();
        client.reset();
        const auto again = BlockingTcpClient::connect("127.0.0.1", 1, spec);
        const bool anew = !again && again.error().code == ConnectError::Code::refused;
        ::_exit(refused && others && anew ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(client->send(Sample{spec}).has_value());
    peer.read_exactly(10);
    peer.ack(1);
    CHECK(client->close() == 0);
}
#endif
