// SPDX-License-Identifier: Apache-2.0
#include "client/support.hpp"
#include <rondo/batch.hpp>
#include <rondo/server.hpp>

#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <future>
#include <map>

namespace {

using namespace rondo;
using namespace rondo::test;

asio::awaitable<std::string> act(std::uint16_t port, const SampleSpec& spec, std::uint32_t actor,
                                 std::uint32_t samples) {
    auto client = co_await TcpClient::connect("127.0.0.1", port, spec, {.max_in_flight = 50});
    if (!client) co_return client.error().message();
    Sample sample{spec};
    sample.array<std::uint32_t>("actor")[0] = actor;
    for (std::uint32_t number = 0; number < samples; ++number) {
        sample.array<std::uint32_t>("number")[0] = number;
        if (auto sent = co_await client->send(sample); !sent) co_return sent.error().message();
    }
    if (auto waited = co_await client->wait(); !waited) co_return waited.error().message();
    if (co_await client->close() != 0) co_return "unacknowledged samples";
    co_return "";
}

}  // namespace

TEST_CASE("Client: a server gets every sample of several actors, each actor's in order") {
    constexpr std::uint32_t actors = 6;
    constexpr std::uint32_t each = 200;
    const auto rest = GENERATE(as<std::uint64_t>{}, 0, 10'000);
    const auto spec =
        spec_of("actor:uint32[],number:uint32[],rest:uint8[" + std::to_string(rest) + "]");
    auto server = Server::create(spec, {.batch_size = 8, .num_buffers = 3});
    REQUIRE(server.has_value());
    const auto where = server->listen();
    REQUIRE(where.has_value());
    asio::thread_pool pool{2};
    std::vector<std::future<std::string>> running;
    for (std::uint32_t actor = 0; actor < actors; ++actor) {
        running.push_back(
            asio::co_spawn(pool, act(where->port, spec, actor, each), asio::use_future));
    }
    std::map<std::uint32_t, std::uint32_t> next;
    for (std::uint32_t seen = 0; seen < actors * each; seen += 8) {
        const auto batch = server->blocking_sample({.deadline = std::chrono::minutes{1}});
        REQUIRE(batch.has_value());
        const auto actor = batch->array<std::uint32_t>("actor");
        const auto number = batch->array<std::uint32_t>("number");
        for (std::size_t i = 0; i < 8; ++i) REQUIRE(number[i] == next[actor[i]]++);
    }
    for (auto& result : running) CHECK(result.get().empty());
}
