// SPDX-License-Identifier: Apache-2.0
#include "server/server_creation.hpp"
#include "support.hpp"
#include "support/catch.hpp"
#include <rondo/server.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <thread>

using rondo::CreationCancelled;
using rondo::PinError;
using rondo::SampleSpec;
using rondo::Server;
using rondo::ServerOptions;
using rondo::test::ScopedVariable;
using rondo::test::StubMachine;

namespace {

using Created = tl::expected<Server, PinError>;

SampleSpec spec() {
    return *SampleSpec::create({{"obs", rondo::dtype::float32, {4}}});
}

/// A runtime whose first call waits until `unblock`.
class BlockingMachine : public StubMachine {
public:
    [[nodiscard]] ServerOptions options() const {
        return {.batch_size = 1, .pin_host_memory = true, .cudart = library_};
    }
    void unblock() const { std::ofstream{*this / "go"}; }
    [[nodiscard]] std::size_t locks() const { return calls("cudaHostRegister").size(); }
    [[nodiscard]] std::size_t unlocks() const { return calls("cudaHostUnregister").size(); }

private:
    std::string library_ = runtime("libcudart.so.12");
    ScopedVariable block_{"RONDO_STUB_BLOCK", *this / "go"};
};

/// Ticks every millisecond, calls `at_five` at the fifth.
struct Ticker {
    asio::steady_timer timer;
    std::function<void()> at_five;
    int ticks = 0;

    void start() {
        timer.expires_after(std::chrono::milliseconds{1});
        timer.async_wait([this](std::error_code error) {
            if (error) return;
            if (++ticks == 5) return at_five();
            start();
        });
    }
};

}  // namespace

TEST_CASE("async_create: the caller's executor runs while CUDA initialises") {
    // The runtime waits for the timer: had the operation blocked the executor, this would hang.
    const BlockingMachine machine;
    asio::io_context context;
    Ticker ticker{asio::steady_timer{context}, [&] { machine.unblock(); }};
    ticker.start();
    std::optional<Created> created;
    std::thread::id on;
    const auto handler = [&](Created result) {
        on = std::this_thread::get_id();
        created = std::move(result);
    };
    Server::async_create(spec(), machine.options(), asio::bind_executor(context, handler));
    CHECK_FALSE(created);
    context.run();
    REQUIRE(created);
    REQUIRE(created->has_value());
    CHECK(ticker.ticks == 5);
    CHECK(on == std::this_thread::get_id());
    CHECK(machine.locks() == 1);
    created.reset();
    CHECK(machine.unlocks() == 1);
}

TEST_CASE("async_create: a coroutine awaits it, with options written in place") {
    const BlockingMachine machine;
    machine.unblock();
    const std::string library{machine.options().cudart};
    asio::io_context context;
    bool sampled = false;
    const auto run = [&]() -> asio::awaitable<void> {
        const auto what = spec();
        auto server = co_await Server::async_create(
            what, {.batch_size = 1, .pin_host_memory = true, .cudart = library},
            asio::use_awaitable);
        if (!server) co_return;
        const rondo::Sample sample{what};
        (void)co_await server->insert(sample);
        const auto batch = co_await server->sample();
        sampled = batch.has_value();
    };
    asio::co_spawn(context, run(), asio::detached);
    context.run();
    CHECK(sampled);
    CHECK(machine.locks() == 1);
    CHECK(machine.unlocks() == 1);
}

TEST_CASE("async_create: works without pinning too, and reports errors as create does") {
    asio::io_context context;
    std::vector<Created> results;
    const auto handler = [&](Created made) { results.push_back(std::move(made)); };
    Server::async_create(spec(), {.batch_size = 2}, asio::bind_executor(context, handler));
    context.run();
    context.restart();
    Server::async_create(spec(), {.batch_size = 0}, asio::bind_executor(context, handler));
    context.run();
    REQUIRE(results.size() == 2);
    REQUIRE(results[0].has_value());
    CHECK(results[0]->options().batch_size == 2);
    REQUIRE_FALSE(results[1].has_value());
    CHECK(results[1].error().as<rondo::InvalidOptions>() != nullptr);
}

TEST_CASE("async_create: where memory runs out the handler is told, and the process goes on") {
    const BlockingMachine machine;
    auto request = rondo::detail::make_server_request(spec(), machine.options());
    request.pin->plan = []() -> rondo::detail::SearchPlan { throw std::bad_alloc{}; };
    const auto creation = std::make_shared<rondo::detail::ServerCreation>(std::move(request));

    asio::io_context context;
    std::optional<Created> created;
    const auto handler = [&](Created made) { created = std::move(made); };
    rondo::detail::async_creation(creation, asio::bind_executor(context, handler));
    context.run();
    REQUIRE(created);
    REQUIRE_FALSE(created->has_value());
    REQUIRE(created->error().as<rondo::RingMemory>() != nullptr);
    CHECK(created->error().as<rondo::RingMemory>()->limited_by == "std::bad_alloc");
    CHECK(created->error().as<rondo::RingMemory>()->wanted == 3 * 16);
}

TEST_CASE("async_create: cancelled, it completes at once, and what is made later is undone") {
    const BlockingMachine machine;
    std::optional<Created> created;
    {
        asio::io_context context;
        asio::cancellation_signal signal;
        const auto handler = [&](Created result) { created = std::move(result); };
        Server::async_create(
            spec(), machine.options(),
            asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(context, handler)));
        signal.emit(asio::cancellation_type::terminal);
        context.run();
        REQUIRE(created);
        REQUIRE_FALSE(created->has_value());
        CHECK(created->error().as<CreationCancelled>() != nullptr);
        CHECK(machine.locks() == 0);
        machine.unblock();
    }  // joins the thread
    CHECK(machine.locks() == 1);
    CHECK(machine.unlocks() == 1);
}

TEST_CASE("async_create: a context that is destroyed drops the handler, and waits for the thread") {
    const BlockingMachine machine;
    const auto token = std::make_shared<int>();
    bool ran = false;
    std::thread later;
    {
        asio::io_context context;
        const auto handler = [&ran, held = token](const Created&) { ran = true; };
        Server::async_create(spec(), machine.options(), asio::bind_executor(context, handler));
        CHECK(token.use_count() == 3);  // with `handler`
        later = std::thread{[&] { machine.unblock(); }};
    }
    CHECK_FALSE(ran);
    CHECK(token.use_count() == 1);
    CHECK(machine.locks() == machine.unlocks());
    later.join();
}

TEST_CASE("async_create: many on one context, each with its server") {
    const BlockingMachine machine;
    machine.unblock();
    asio::io_context context;
    std::vector<Server> servers;
    for (int i = 0; i < 8; ++i) {
        const auto handler = [&](Created made) {
            REQUIRE(made.has_value());
            servers.push_back(*std::move(made));
        };
        Server::async_create(spec(), machine.options(), asio::bind_executor(context, handler));
    }
    context.run();
    CHECK(servers.size() == 8);
    CHECK(machine.locks() == 8);
    servers.clear();
    CHECK(machine.unlocks() == 8);
}
