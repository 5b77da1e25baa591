// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using rondo::Batch;
using rondo::Deadline;
using rondo::InsertError;
using rondo::Sample;
using rondo::SampleError;
using rondo::Server;
using rondo::test::fill;
using rondo::test::HandPolled;
using rondo::test::ids_of;
using rondo::test::numbers;
using rondo::test::sample_of;
using rondo::test::server_of;
using rondo::test::take;
using namespace std::chrono_literals;

namespace {

using Inserted = tl::expected<void, InsertError>;
using Sampled = tl::expected<Batch, SampleError>;

/// What came of many operations: how many ended, and with which code.
template <typename Error>
struct Tally {
    int succeeded = 0;
    std::vector<typename Error::Code> codes;

    template <typename Result>
    void add(const Result& result) {
        if (result) {
            ++succeeded;
        } else {
            codes.push_back(result.error().code);
        }
    }

    [[nodiscard]] bool all(int count, typename Error::Code code) const {
        return succeeded == 0 && codes == std::vector(static_cast<std::size_t>(count), code);
    }
};

constexpr int many = 100;

/// Something that is over when the test says so.
class Bell {
public:
    explicit Bell(HandPolled& hand)
        : timer_{hand.context(), asio::steady_timer::time_point::max()} {}

    void ring() { timer_.cancel(); }

    asio::awaitable<void> rung() {
        std::error_code ignored;
        co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }

private:
    asio::steady_timer timer_;
};

}  // namespace

TEST_CASE("Wait: a server that dies ends every wait for room with `closed`") {
    for (const Deadline deadline : {Deadline{}, Deadline{1h}}) {
        HandPolled hand;
        Tally<InsertError> tally;
        std::vector<std::future<Inserted>> futures;
        const Sample sample = sample_of(7);
        const auto stacked = numbers(0, 3);
        const std::vector arrays{rondo::test::bytes_of(stacked)};
        std::optional<Server> server{server_of({.batch_size = 1, .num_buffers = 1})};
        fill(*server, 0, 1);

        const auto insert = [&](auto start) {
            asio::co_spawn(
                hand.context(),
                [&tally, start]() -> asio::awaitable<void> { tally.add(co_await start()); },
                asio::detached);
        };
        for (int i = 0; i < many; ++i) {
            insert([&] { return server->insert(sample, deadline); });
            insert([&] { return server->insert(sample.arrays(), deadline); });
            insert([&] { return server->insert_many(arrays, 3, deadline); });
            const auto handler = [&] {
                return asio::bind_executor(hand.executor(),
                                           [&](const Inserted& result) { tally.add(result); });
            };
            server->async_insert(sample, handler(), deadline);
            server->async_insert_many(arrays, 3, handler(), deadline);
            futures.push_back(server->async_insert(sample, asio::use_future, deadline));
        }
        hand.poll();
        CHECK(server->metrics().producers_waiting == 6 * many);
        server.reset();
        hand.poll();
        CHECK(tally.all(5 * many, InsertError::Code::closed));
        for (auto& future : futures) tally.add(future.get());
        CHECK(tally.all(6 * many, InsertError::Code::closed));
    }
}

TEST_CASE("Wait: a server that dies ends every wait for a batch with `closed`") {
    for (const Deadline deadline : {Deadline{}, Deadline{1h}}) {
        HandPolled hand;
        Tally<SampleError> tally;
        std::vector<std::future<Sampled>> futures;
        std::optional<Server> server{server_of({.batch_size = 2, .num_buffers = 2})};
        fill(*server, 0, 3);
        const Batch kept = take(*server);
        for (int i = 0; i < many; ++i) {
            asio::co_spawn(
                hand.context(),
                [&]() -> asio::awaitable<void> {
                    tally.add(co_await server->sample({.deadline = deadline}));
                },
                asio::detached);
            server->async_sample(
                asio::bind_executor(hand.executor(), [&](const Sampled& s) { tally.add(s); }),
                {.deadline = deadline});
            futures.push_back(server->async_sample(
                asio::bind_executor(hand.executor(), asio::use_future), {.deadline = deadline}));
        }
        hand.poll();
        CHECK(server->metrics().consumers_waiting == 3 * many);
        server.reset();
        hand.poll();
        for (auto& future : futures) tally.add(future.get());
        CHECK(tally.all(3 * many, SampleError::Code::closed));
        CHECK(ids_of(kept) == numbers(0, 2));
    }
}

TEST_CASE("Wait: a server that closes ends every blocking wait") {
    for (const Deadline deadline : {Deadline{}, Deadline{1h}}) {
        auto full = server_of({.batch_size = 1, .num_buffers = 1});
        auto empty = server_of({.batch_size = 2, .num_buffers = 2});
        fill(full, 0, 1);
        fill(empty, 0, 1);
        std::atomic<int> closed{0};
        std::vector<std::thread> threads;
        const auto stacked = numbers(0, 3);
        const std::vector arrays{rondo::test::bytes_of(stacked)};
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                const auto inserted = full.blocking_insert(sample_of(1), deadline);
                closed += !inserted && inserted.error().code == InsertError::Code::closed ? 1 : 0;
            });
            threads.emplace_back([&] {
                const auto inserted = full.blocking_insert_many(arrays, 3, deadline);
                closed += !inserted && inserted.error().code == InsertError::Code::closed ? 1 : 0;
            });
            threads.emplace_back([&] {
                const auto batch = empty.blocking_sample({.deadline = deadline});
                closed += !batch && batch.error().code == SampleError::Code::closed ? 1 : 0;
            });
        }
        while (full.metrics().producers_waiting < 8 || empty.metrics().consumers_waiting < 4) {
            std::this_thread::yield();
        }
        full.close();
        empty.close();
        for (auto& thread : threads) thread.join();
        CHECK(closed == 12);
    }
}

TEST_CASE("Wait: a wait times out with the typed error, and leaves nothing in the ring") {
    HandPolled hand;
    auto server = server_of({.batch_size = 2, .num_buffers = 1});
    const auto stacked = numbers(0, 5);
    const std::vector arrays{rondo::test::bytes_of(stacked)};
    Inserted one;
    Inserted five;
    Sampled batch = tl::unexpected{SampleError{}};
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            batch = co_await server.sample({.deadline = 2ms});
            five = co_await server.insert_many(arrays, 5, 2ms);
            const Sample sample = sample_of(9);
            one = co_await server.insert(sample, 2ms);
        },
        asio::detached);
    hand.run();
    CHECK(batch.error().code == SampleError::Code::timed_out);
    CHECK(one.error().code == InsertError::Code::timed_out);
    CHECK(one.error().inserted == 0);
    CHECK(five.error().code == InsertError::Code::timed_out);
    CHECK(five.error().inserted == 2);
    CHECK(ids_of(take(server)) == numbers(0, 2));
    CHECK(server.metrics().samples_inserted_total == 2);
    CHECK(server.blocking_sample({.deadline = 2ms}).error().code == SampleError::Code::timed_out);
    fill(server, 0, 2);
    CHECK(server.blocking_insert(sample_of(1), 2ms).error().code == InsertError::Code::timed_out);
    const auto some = server.blocking_insert_many(arrays, 5, 2ms);
    CHECK(some.error().inserted == 0);
}

TEST_CASE("Wait: a batch that was meant for a handler which never runs goes to the next") {
    auto server = server_of({.batch_size = 1, .num_buffers = 3});
    const auto never = [](const Sampled&) { FAIL("runs"); };
    SECTION("ready at once") {
        HandPolled doomed;
        fill(server, 0, 1);
        server.async_sample(asio::bind_executor(doomed.executor(), never));
        CHECK(server.metrics().live_leases == 0);  // nothing is leased inside the call
    }
    SECTION("suspended, then woken") {
        HandPolled doomed;
        server.async_sample(asio::bind_executor(doomed.executor(), never));
        doomed.poll();
        fill(server, 0, 1);
    }
    SECTION("suspended in a coroutine") {
        HandPolled doomed;
        asio::co_spawn(
            doomed.context(), [&]() -> asio::awaitable<void> { never(co_await server.sample()); },
            asio::detached);
        doomed.poll();
        fill(server, 0, 1);
    }
    CHECK(ids_of(take(server)) == numbers(0, 1));
}

TEST_CASE("Wait: a coroutine keeps its place when somebody else was faster") {
    HandPolled hand;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    std::vector<int> order;
    for (const int number : {1, 2}) {
        asio::co_spawn(
            hand.context(),
            [&, number]() -> asio::awaitable<void> {
                const Sample sample = sample_of(100 + static_cast<std::uint64_t>(number));
                (void)co_await server.insert(sample);
                order.push_back(number);
            },
            asio::detached);
    }
    hand.poll();
    for (std::uint64_t i = 1; i < 5; ++i) {
        (void)take(server);  // wakes 1
        fill(server, i, 1);  // somebody else takes the slot
        hand.poll();
        CHECK(order.empty());
    }
    CHECK(server.metrics().producer_waits_total == 2);
    CHECK(server.metrics().producers_waiting == 2);
    (void)take(server);
    hand.poll();
    CHECK(order == std::vector{1});
    (void)take(server);
    hand.poll();
    CHECK(order == std::vector{1, 2});
}

TEST_CASE("Wait: sample() || timer loses no batch when the timer wins") {
    using namespace asio::experimental::awaitable_operators;
    HandPolled hand;
    auto server = server_of({.batch_size = 1, .num_buffers = 3});
    std::optional<std::size_t> winner;
    std::vector<std::uint64_t> got;
    Bell bell{hand};
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            auto result = co_await (server.sample() || bell.rung());
            winner = result.index();
            if (result.index() == 0 && std::get<0>(result)) got = ids_of(*std::get<0>(result));
        },
        asio::detached);
    hand.poll();
    REQUIRE(server.metrics().consumers_waiting == 1);
    SECTION("while it waits") {
        bell.ring();
        hand.poll();
        CHECK(server.metrics().consumers_waiting == 0);
        fill(server, 0, 1);
    }
    SECTION("although it was woken, before it ran") {
        bell.ring();         // its completion is queued first
        fill(server, 0, 1);  // then the permit
        hand.poll();
    }
    SECTION("never: the batch is first") {
        fill(server, 0, 1);
        bell.ring();
        hand.poll();
        CHECK(winner == 0U);
        CHECK(got == numbers(0, 1));
        fill(server, 0, 1);
    }
    CHECK(winner.has_value());
    CHECK(ids_of(take(server)) == numbers(0, 1));
    CHECK(server.metrics().consumers_waiting == 0);
}

TEST_CASE("Wait: insert() || timer leaves the sample out when the timer wins") {
    using namespace asio::experimental::awaitable_operators;
    HandPolled hand;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    const Sample sample = sample_of(1);
    Bell bell{hand};
    bool done = false;
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            (void)co_await (server.insert(sample) || bell.rung());
            done = true;
        },
        asio::detached);
    hand.poll();
    REQUIRE(server.metrics().producers_waiting == 1);
    bell.ring();
    (void)take(server);
    hand.poll();
    CHECK(done);
    CHECK(server.metrics().samples_inserted_total == 1);
    CHECK(server.metrics().producers_waiting == 0);
}

TEST_CASE("Wait: a coroutine that was cancelled before gets `cancelled`, and takes nothing") {
    HandPolled hand;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    fill(server, 0, 1);
    std::optional<InsertError::Code> inserted;
    std::optional<SampleError::Code> sampled;
    asio::cancellation_signal signal;
    Bell bell{hand};
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            co_await asio::this_coro::throw_if_cancelled(false);
            co_await bell.rung();
            const Sample sample = sample_of(1);
            auto insert = co_await server.insert(sample);
            if (!insert) inserted = insert.error().code;
            auto batch = co_await server.sample();
            if (!batch) sampled = batch.error().code;
        },
        asio::bind_cancellation_slot(signal.slot(), asio::detached));
    hand.poll();
    signal.emit(asio::cancellation_type::terminal);
    hand.poll();
    CHECK(inserted == InsertError::Code::cancelled);
    CHECK(sampled == SampleError::Code::cancelled);
    CHECK(ids_of(take(server)) == numbers(0, 1));
}

TEST_CASE("Wait: a cancelled coroutine gets `cancelled`, not an exception") {
    HandPolled hand;
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    asio::cancellation_signal signal;
    std::optional<SampleError::Code> code;
    std::exception_ptr thrown;
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            const auto batch = co_await server.sample({.deadline = 1h});
            if (!batch) code = batch.error().code;
        },
        asio::bind_cancellation_slot(signal.slot(),
                                     [&](std::exception_ptr error) { thrown = std::move(error); }));
    hand.poll();
    signal.emit(asio::cancellation_type::terminal);
    hand.run();
    CHECK(code == SampleError::Code::cancelled);
    CHECK(thrown == nullptr);
    fill(server, 0, 1);
    CHECK(ids_of(take(server)) == numbers(0, 1));
}

TEST_CASE("Wait: a coroutine that need not wait is not suspended") {
    HandPolled hand;
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    bool done = false;
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            const Sample sample = sample_of(3);
            for (int i = 0; i < 10; ++i) {
                (void)co_await server.insert(sample);
                (void)co_await server.sample();
            }
            done = true;
        },
        asio::detached);
    CHECK(hand.poll_one() == 1);
    CHECK(done);
}

TEST_CASE("Server: a wait for a batch takes none, and tells the next who waits") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    asio::io_context io;
    int told = 0;
    const auto count = [&told](bool ready) { told += ready ? 1 : 0; };
    server.async_wait_for_batch(asio::bind_executor(io, count));
    server.async_wait_for_batch(asio::bind_executor(io, count));
    io.poll();
    CHECK(told == 0);
    REQUIRE(*server.try_insert(sample_of(7)));
    io.restart();
    io.poll();
    CHECK(told == 2);
    const auto batch = server.try_sample();
    REQUIRE(batch->has_value());
    CHECK(ids_of(**batch) == numbers(7, 1));
}

TEST_CASE(
    "Server: a wait for a batch ends at its deadline, at close and where a lease is in its way") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    asio::io_context io;
    std::optional<bool> ready;
    const auto keep = [&ready](bool value) { ready = value; };
    server.async_wait_for_batch(asio::bind_executor(io, keep), {.deadline = 1ms});
    io.run();
    CHECK(ready == false);

    REQUIRE(*server.try_insert(sample_of(1)));
    const auto held = server.try_sample();
    ready.reset();
    server.async_wait_for_batch(asio::bind_executor(io, keep),
                                {.when_next_leased = rondo::WhenNextLeased::fail});
    io.restart();
    io.run();
    CHECK(ready == true);

    ready.reset();
    server.async_wait_for_batch(asio::bind_executor(io, keep));
    server.close();
    io.restart();
    io.run();
    CHECK(ready == true);
}
