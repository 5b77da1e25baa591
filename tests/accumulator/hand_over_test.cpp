// SPDX-License-Identifier: Apache-2.0
// What `build` hands over goes straight into a server, from here and from elsewhere.
#include "support/catch.hpp"
#include <rondo/rondo.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace rondo;

namespace {

constexpr std::uint64_t samples = 20;
constexpr std::uint64_t steps = 8;

SampleSpec spec() {
    return SampleSpec::parse("episode/id:uint64[],step/id:uint64[8],step/obs:uint8[8,3000]")
        .value();
}

/// Fills the accumulator with sample `sample`; every number of it says which and where.
void accumulate(TrajectoryAccumulator& accumulator, std::uint64_t sample) {
    Sample step{accumulator.item_spec("step").value()};
    for (std::uint64_t k = 0; k < steps; ++k) {
        step.array<std::uint64_t>("id")[0] = sample * steps + k;
        for (auto& byte : step.array<std::uint8_t>("obs")) {
            byte = static_cast<std::uint8_t>(sample * steps + k);
        }
        if (!accumulator.add("step", step)) throw std::runtime_error{"a step was refused"};
    }
    const ArrayBytes episode[] = {std::as_bytes(std::span{&sample, 1})};
    if (!accumulator.add("episode", episode)) throw std::runtime_error{"an episode was refused"};
}

/// Every sample of it, whole and in order.
void check(Server& server) {
    std::uint64_t next = 0;
    while (next < samples) {
        const auto batch = server.blocking_sample({.deadline = std::chrono::seconds{120}});
        REQUIRE(batch.has_value());
        for (std::uint64_t i = 0; i < batch->size(); ++i, ++next) {
            REQUIRE(batch->array<std::uint64_t>("episode/id")[i] == next);
            for (std::uint64_t k = 0; k < steps; ++k) {
                REQUIRE(batch->array<std::uint64_t>("step/id")[i * steps + k] == next * steps + k);
                const auto obs =
                    batch->array<std::uint8_t>("step/obs").subspan((i * steps + k) * 3000, 3000);
                REQUIRE(
                    std::vector<std::uint8_t>(obs.begin(), obs.end()) ==
                    std::vector<std::uint8_t>(3000, static_cast<std::uint8_t>(next * steps + k)));
            }
        }
    }
}

/// Ends the actor's waits before its thread is joined, should the test fail.
struct Closing {
    Server& server;
    ~Closing() { server.close(); }
};

/// Runs the actor on a thread of its own while this one learns.
template <typename Act>
void run(Server& server, Act act) {
    asio::io_context context;
    std::exception_ptr failure;
    asio::co_spawn(context, act(), [&](std::exception_ptr error) {
        failure = error;
        if (failure) server.close();  // or the learner would wait for what never comes
    });
    std::jthread actor{[&context] { context.run(); }};
    const Closing closing{server};
    check(server);
    actor.join();
    if (failure) std::rethrow_exception(failure);
}

asio::awaitable<void> insert_all(Server& server) {
    auto accumulator = TrajectoryAccumulator::create(server.spec()).value();
    for (std::uint64_t sample = 0; sample < samples; ++sample) {
        accumulate(accumulator, sample);
        const auto inserted = co_await server.insert(accumulator.build());
        if (!inserted) throw std::runtime_error{inserted.error().message()};
    }
}

asio::awaitable<void> send_all(std::uint16_t port, SampleSpec sample_spec) {
    auto accumulator = TrajectoryAccumulator::create(sample_spec).value();
    auto client = co_await TcpClient::connect("127.0.0.1", port, sample_spec);
    if (!client) throw std::runtime_error{client.error().message()};
    for (std::uint64_t sample = 0; sample < samples; ++sample) {
        accumulate(accumulator, sample);
        const auto sent = co_await client->send(accumulator.build());
        if (!sent) throw std::runtime_error{sent.error().message()};
    }
    const std::uint64_t left = co_await client->close();
    if (left != 0) throw std::runtime_error{std::to_string(left) + " were not acknowledged"};
}

}  // namespace

TEST_CASE("Accumulator: what it builds goes straight into insert, which may wait") {
    auto server = Server::create(spec(), {.batch_size = 2, .num_buffers = 2}).value();
    run(server, [&server] { return insert_all(server); });
}

TEST_CASE("Accumulator: what it builds goes straight into send") {
    auto server = Server::create(spec(), {.batch_size = 2, .num_buffers = 2}).value();
    const auto where = server.listen().value();
    run(server, [&] { return send_all(where.port, server.spec()); });
}
