// SPDX-License-Identifier: Apache-2.0
#include "client/support.hpp"

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <future>
#include <thread>

namespace {

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;
using Code = SendError::Code;
using Result = tl::expected<void, SendError>;

constexpr int small_receive_buffer = 16 * 1024;
constexpr std::size_t unsendable = std::size_t{24} << 20U;

}  // namespace

TEST_CASE("Client: wait returns at once when nothing is in flight") {
    Loop loop;
    ScriptedPeer peer;
    TcpClient client = connected(loop, peer, spec_of_bytes(10));
    CHECK(loop.spawn(client.wait()).done());
}

TEST_CASE("Client: wait ends with the ack of the last sample sent before it") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    const Sample sample{spec};
    for (int i = 0; i < 3; ++i) REQUIRE(loop.run(client.send(sample)).has_value());
    const auto first = loop.spawn(client.wait());
    REQUIRE(loop.run(client.send(sample)).has_value());
    const auto second = loop.spawn(client.wait());
    peer.ack(2);
    loop.run_until([&] { return client.in_flight() == 2; });
    loop.poll();
    CHECK_FALSE(first.done());
    peer.ack(1);
    CHECK(loop.await(first).has_value());
    CHECK_FALSE(second.done());
    peer.ack(1);
    CHECK(loop.await(second).has_value());
}

TEST_CASE("Client: wait gives up at its deadline and when cancelled") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    REQUIRE(loop.run(client.send(Sample{spec})).has_value());
    const auto late = loop.run(client.wait(5ms));
    REQUIRE_FALSE(late.has_value());
    CHECK(late.error().code == Code::timed_out);
    CHECK(late.error().unacknowledged == 1);
    const auto task = loop.spawn(client.wait());
    task.cancel();
    REQUIRE_FALSE(loop.await(task).has_value());
    CHECK(task.result().error().code == Code::cancelled);
    peer.ack(1);
    CHECK(loop.run(client.wait()).has_value());
}

TEST_CASE("Client: close waits for the acks, then closes the connection") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    REQUIRE(loop.run(client.send(Sample{spec})).has_value());
    const auto closing = loop.spawn(client.close());
    const auto again = loop.spawn(client.close());
    CHECK_FALSE(closing.done());
    CHECK_FALSE(client.was_open());
    CHECK(client.try_send(Sample{spec}).error().code == Code::connection_closed);
    peer.ack(1);
    CHECK(loop.await(closing) == 0);
    CHECK(loop.await(again) == 0);
    CHECK(peer.read_to_end().size() == 10);
    CHECK(loop.run(client.close()) == 0);
}

TEST_CASE("Client: close returns what was not acknowledged before its deadline") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    const LogCapture log;
    {
        TcpClient client = connected(loop, peer, spec);
        for (int i = 0; i < 3; ++i) REQUIRE(loop.run(client.send(Sample{spec})).has_value());
        peer.ack(1);
        CHECK(loop.run(client.close(20ms)) == 2);
        CHECK(loop.run(client.close()) == 2);
    }
    CHECK(log.lines().empty());
}

TEST_CASE("Client: a cancelled close closes at once") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    REQUIRE(loop.run(client.send(Sample{spec})).has_value());
    const auto task = loop.spawn(client.close());
    task.cancel();
    CHECK(loop.await(task) == 1);
    CHECK(peer.read_to_end().size() == 10);
}

TEST_CASE("Client: close flushes what a slow peer has not taken yet") {
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(unsendable);
    TcpClient client = connected(loop, peer, spec);
    const Sample sample = filled(spec, 1);
    const auto sending = loop.spawn(client.send(sample));
    const auto waiting = loop.spawn(client.send(sample));
    const auto closing = loop.spawn(client.close(Deadline{}));
    REQUIRE_FALSE(sending.done());
    REQUIRE_FALSE(closing.done());
    REQUIRE_FALSE(loop.await(waiting).has_value());
    CHECK(waiting.result().error().code == Code::connection_closed);
    CHECK(waiting.result().error().sent == 0);
    std::vector<std::byte> received;
    std::thread reader{[&] {
        received = peer.read_exactly(unsendable);
        peer.ack(1);
    }};
    CHECK(loop.await(closing) == 0);
    CHECK(loop.await(sending).has_value());
    reader.join();
    CHECK((received == payload_of(sample)));
}

TEST_CASE("Client: the peer's end is noticed although nobody calls") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    peer.close();
    loop.run_until([&] { return !client.was_open(); });
    const auto sent = loop.run(client.send(Sample{spec}));
    REQUIRE_FALSE(sent.has_value());
    CHECK(sent.error().code == Code::connection_closed);
    CHECK_THAT(sent.error().message(), contains("closed the connection"));
    CHECK(loop.run(client.wait()).has_value());  // nothing was in flight
    CHECK(loop.run(client.close()) == 0);
}

TEST_CASE("Client: more acks than samples end the connection") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    REQUIRE(loop.run(client.send(Sample{spec})).has_value());
    peer.ack(2);
    loop.run_until([&] { return !client.was_open(); });
    CHECK(client.in_flight() == 0);
    CHECK_THAT(loop.run(client.send(Sample{spec})).error().message(), contains("only 1 were sent"));
}

TEST_CASE("Client: a byte that is no ack ends the connection") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    REQUIRE(loop.run(client.send(Sample{spec})).has_value());
    peer.say("\x02");
    const auto waited = loop.run(client.wait());
    REQUIRE_FALSE(waited.has_value());
    CHECK(waited.error().unacknowledged == 1);
    CHECK_THAT(waited.error().message(), contains("0x02"));
}

TEST_CASE("Client: the peer's death ends a hundred pending calls of every kind") {
    constexpr int calls = 100;
    const bool by_reset = GENERATE(false, true);
    const std::uint64_t payload = GENERATE(as<std::uint64_t>{}, 10, unsendable);
    CAPTURE(by_reset, payload);
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(payload);
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 3});
    const Sample sample{spec};
    std::vector<Task<Result>> sends;
    for (int i = 0; i < calls; ++i) {
        sends.push_back(loop.spawn(client.send(sample)));
        sends.push_back(loop.spawn(client.send_many(sample.arrays(), 1)));
    }
    const std::uint64_t in_flight = client.in_flight();
    CHECK(in_flight == (payload == 10 ? 3 : 1));
    std::vector<Task<Result>> waits;
    for (int i = 0; i < calls; ++i) waits.push_back(loop.spawn(client.wait()));
    if (by_reset) {
        peer.reset();
    } else {
        peer.close();
    }
    std::uint64_t sent = 0;
    for (const auto& task : sends) {
        const Result& result = loop.await(task);
        if (result) {
            ++sent;
            continue;
        }
        CHECK(result.error().code == Code::connection_closed);
        CHECK(result.error().unacknowledged == in_flight);
        sent += result.error().sent;
    }
    CHECK(sent == in_flight);
    for (const auto& task : waits) {
        const Result& result = loop.await(task);
        REQUIRE_FALSE(result.has_value());
        CHECK(result.error().code == Code::connection_closed);
        CHECK(result.error().unacknowledged == in_flight);
    }
    CHECK(loop.run(client.close()) == in_flight);
}

TEST_CASE("Client: the peer's death ends a hundred pending closes") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    for (int i = 0; i < 3; ++i) REQUIRE(*client.try_send(Sample{spec}));
    std::vector<Task<std::uint64_t>> closes;
    for (int i = 0; i < 100; ++i) closes.push_back(loop.spawn(client.close(Deadline{})));
    peer.ack(1);
    peer.reset();
    for (const auto& task : closes) CHECK(loop.await(task) == 2);
}

TEST_CASE("Client: acks that came before the peer's death count") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    for (int i = 0; i < 5; ++i) REQUIRE(*client.try_send(Sample{spec}));
    loop.poll();
    peer.read_exactly(50);
    peer.ack(3);
    peer.close();
    const auto waited = loop.run(client.wait());
    REQUIRE_FALSE(waited.has_value());
    CHECK(waited.error().unacknowledged == 2);
}

TEST_CASE("Client: destroying a client ends its pending calls, and logs what is lost") {
    const std::uint64_t payload = GENERATE(as<std::uint64_t>{}, 10, unsendable);
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(payload);
    const LogCapture log;
    const Sample sample{spec};
    std::optional<TcpClient> client{connected(loop, peer, spec, {.max_in_flight = 1})};
    std::vector<Task<Result>> tasks;
    for (int i = 0; i < 10; ++i) tasks.push_back(loop.spawn(client->send(sample)));
    for (int i = 0; i < 10; ++i) tasks.push_back(loop.spawn(client->wait()));
    const auto closing = loop.spawn(client->close(Deadline{}));
    client.reset();
    std::uint64_t sent = 0;
    for (const auto& task : tasks) {
        const Result& result = loop.await(task);
        sent += result ? 1 : result.error().sent;
        if (!result) CHECK(result.error().code == Code::connection_closed);
    }
    CHECK(sent == 1);
    CHECK(loop.await(closing) == 1);
    REQUIRE(log.lines().size() == 1);
    CHECK_THAT(log.lines().front(), contains("1 sample not acknowledged"));
}

TEST_CASE("Client: destroying a client with nothing in flight, or told of, logs nothing") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    const LogCapture log;
    {
        TcpClient client = connected(loop, peer, spec);
        REQUIRE(*client.try_send(Sample{spec}));
        peer.ack(1);
        REQUIRE(loop.run(client.wait()).has_value());
    }
    {
        TcpClient client = connected(loop, peer, spec);
        REQUIRE(*client.try_send(Sample{spec}));
        peer.close();
        REQUIRE_FALSE(loop.run(client.wait()).has_value());
    }
    CHECK(log.lines().empty());
}

TEST_CASE("Client: a client may be moved, and assigned over one that is then closed") {
    Loop loop;
    ScriptedPeer first_peer;
    ScriptedPeer second_peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, first_peer, spec);
    client = connected(loop, second_peer, spec);
    CHECK(first_peer.read_to_end().empty());
    TcpClient moved{std::move(client)};
    CHECK(loop.run(moved.send(Sample{spec})).has_value());
    CHECK(second_peer.read_exactly(10).size() == 10);
    second_peer.ack(1);
    CHECK(loop.run(moved.wait()).has_value());
}

TEST_CASE("Client: the io_context may be destroyed before the client") {
    const std::uint64_t payload = GENERATE(as<std::uint64_t>{}, 10, unsendable);
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(payload);
    const LogCapture log;
    const Sample sample{spec};
    {
        TcpClient client = connected(loop, peer, spec, {.max_in_flight = 1});
        for (int i = 0; i < 10; ++i) {
            loop.spawn(client.send(sample));
            loop.spawn(client.wait());
        }
        loop.spawn(client.close(Deadline{}));
        loop.destroy();
        CHECK_FALSE(client.was_open());
        CHECK(client.in_flight() == 1);
        const auto tried = client.try_send(sample);
        REQUIRE_FALSE(tried.has_value());
        CHECK_THAT(tried.error().message(), contains("execution context was destroyed"));
    }
    CHECK(log.lines().empty());
}

TEST_CASE("Client: calls that wait on another context end when the client's context is destroyed") {
    Loop of_client;
    Loop of_caller;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(unsendable);
    const Sample sample{spec};
    TcpClient client = connected(of_client, peer, spec);
    const auto sending = of_caller.spawn(client.send(sample));
    const auto queued = of_caller.spawn(client.send(sample));
    const auto waiting = of_caller.spawn(client.wait());
    of_client.destroy();
    CHECK(of_caller.await(sending).error().sent == 1);
    CHECK(of_caller.await(queued).error().sent == 0);
    CHECK(of_caller.await(waiting).error().unacknowledged == 1);
}

TEST_CASE("Client: all of it works on a thread pool") {
    constexpr std::uint32_t actors = 32;
    constexpr std::uint32_t each = 50;
    const std::uint64_t payload = GENERATE(as<std::uint64_t>{}, 10, 9'000, 200'000);
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(payload);
    asio::thread_pool pool{4};
    std::optional<TcpClient> client;
    const auto connect = [&]() -> asio::awaitable<void> {
        const TcpClientOptions options{.max_in_flight = 16};
        auto connecting = TcpClient::connect("127.0.0.1", peer.port(), spec, options);
        auto made = co_await std::move(connecting);
        if (made) client.emplace(std::move(*made));
    };
    auto connecting = asio::co_spawn(pool, connect(), asio::use_future);
    peer.accept();
    peer.greet(spec);
    connecting.get();
    REQUIRE(client.has_value());

    const bool to_the_end = GENERATE(true, false);
    const std::size_t total = to_the_end ? actors * each : actors * each / 2;
    std::thread reader{[&] {
        for (std::size_t i = 0; i < total; ++i) {
            peer.read_exactly(payload);
            peer.ack(1);
        }
        if (!to_the_end) peer.reset();
    }};
    std::atomic<std::uint64_t> sent{0};
    std::atomic<std::uint32_t> failed{0};
    const auto act = [&]() -> asio::awaitable<void> {
        const Sample sample{spec};
        for (std::uint32_t i = 0; i < each; ++i) {
            const auto result = co_await client->send(sample);
            sent += result ? 1 : result.error().sent;
            if (result) continue;
            ++failed;
            co_return;
        }
        const auto waited = co_await client->wait();
        if (!waited) ++failed;
    };
    std::vector<std::future<void>> running;
    for (std::uint32_t i = 0; i < actors; ++i) {
        running.push_back(asio::co_spawn(pool, act(), asio::use_future));
    }
    for (auto& future : running) future.get();
    reader.join();
    CHECK(sent - client->in_flight() == total);
    CHECK((failed > 0) == !to_the_end);
    auto closing = asio::co_spawn(pool, client->close(), asio::use_future);
    CHECK(closing.get() == sent - total);
    client.reset();
    pool.join();
}

TEST_CASE("Client: a client may be destroyed while a pool's threads are busy with its calls") {
    const std::uint64_t payload = GENERATE(as<std::uint64_t>{}, 10, 200'000);
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(payload);
    const LogCapture log;
    for (int round = 0; round < 20; ++round) {
        asio::thread_pool pool{3};
        std::optional<TcpClient> client;
        const auto connect = [&]() -> asio::awaitable<void> {
            auto connecting = TcpClient::connect("127.0.0.1", peer.port(), spec);
            auto made = co_await std::move(connecting);
            if (made) client.emplace(std::move(*made));
        };
        auto connecting = asio::co_spawn(pool, connect(), asio::use_future);
        peer.accept();
        peer.greet(spec);
        connecting.get();
        REQUIRE(client.has_value());
        const Sample sample{spec};
        std::vector<std::future<Result>> running;
        for (int i = 0; i < 100; ++i) {
            running.push_back(asio::co_spawn(pool, client->send(sample), asio::use_future));
            running.push_back(asio::co_spawn(pool, client->wait(), asio::use_future));
        }
        peer.read_exactly(payload);
        client.reset();
        for (auto& future : running) {
            const Result result = future.get();
            if (!result) CHECK(result.error().code == Code::connection_closed);
        }
    }
}
