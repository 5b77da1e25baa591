// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/handlers.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/strand.hpp>
#include <asio/system_executor.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <future>
#include <thread>
#include <vector>

using rondo::Deadline;
using rondo::detail::async_retry;
using rondo::test::Allocations;
using rondo::test::FullHandler;
using rondo::test::Gate;
using rondo::test::Got;
using rondo::test::HandPolled;
using rondo::test::TakeToken;
using rondo::test::TakeTokenForGood;

namespace {

const Deadline past{Deadline::Clock::now() - std::chrono::hours{1}};

}  // namespace

TEMPLATE_TEST_CASE("Wait: a handler never runs inside the initiating function", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    std::vector<Got> got;
    const auto handler = [&] {
        return asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); });
    };

    gate->add(1);
    async_retry(gate, TestType{{gate}}, Deadline{}, handler());  // has a token
    CHECK(got.empty());
    hand.poll();
    CHECK(got == std::vector{Got::token});

    async_retry(gate, TestType{{gate}}, past, handler());  // is too late
    CHECK(got.size() == 1);
    hand.poll();
    CHECK(got.back() == Got::timed_out);

    gate->on_enqueue = [&] {  // a token comes between the refusal and the second look
        gate->add(1);
    };
    async_retry(gate, TestType{{gate}}, Deadline{}, handler());
    CHECK(got.size() == 2);
    hand.poll();
    CHECK(got.back() == Got::token);

    async_retry(gate, TestType{{gate}}, Deadline{}, handler());  // waits
    hand.poll();
    CHECK(gate->waiting() == 1);
    gate->add(1);
    CHECK(got.size() == 3);
    hand.poll();
    CHECK(got.size() == 4);
    CHECK(got.back() == Got::token);
    CHECK(gate->tokens() == 0);
}

TEST_CASE("Wait: a handler that was called in a handler's turn waits for its own") {
    const auto gate = std::make_shared<Gate>();
    gate->add(2);
    HandPolled hand;
    bool initiating = false;
    int inside = 0;
    int ran = 0;
    const auto handler = [&] {
        return asio::bind_executor(hand.executor(), [&](Got) {
            ++ran;
            if (initiating) ++inside;
        });
    };
    asio::post(hand.executor(), [&] {
        initiating = true;
        async_retry(gate, TakeToken{gate}, Deadline{}, handler());
        async_retry(gate, TakeTokenForGood{{gate}}, Deadline{}, handler());
        initiating = false;
    });
    hand.poll();
    CHECK(ran == 2);
    CHECK(inside == 0);
}

TEST_CASE("Wait: a handler runs on its associated executor") {
    const auto gate = std::make_shared<Gate>();
    SECTION("a strand") {
        asio::thread_pool pool{2};
        auto strand = asio::make_strand(pool);
        std::promise<bool> on_strand;
        async_retry(gate, TakeToken{gate}, Deadline{}, asio::bind_executor(strand, [&](Got) {
                        on_strand.set_value(strand.running_in_this_thread());
                    }));
        gate->add(1);
        CHECK(on_strand.get_future().get());
    }
    SECTION("a thread pool") {
        asio::thread_pool pool{1};
        std::promise<bool> on_pool;
        async_retry(gate, TakeTokenForGood{{gate}}, Deadline{}, asio::bind_executor(pool, [&](Got) {
                        on_pool.set_value(pool.get_executor().running_in_this_thread());
                    }));
        gate->add(1);
        CHECK(on_pool.get_future().get());
    }
    SECTION("no executor: the system's") {
        std::promise<std::thread::id> where;
        async_retry(gate, TakeToken{gate}, Deadline{},
                    [&](Got) { where.set_value(std::this_thread::get_id()); });
        gate->add(1);
        CHECK(where.get_future().get() != std::this_thread::get_id());
    }
    SECTION("no executor, and no wait") {
        gate->add(1);
        std::promise<std::thread::id> where;
        async_retry(gate, TakeToken{gate}, Deadline{},
                    [&](Got) { where.set_value(std::this_thread::get_id()); });
        CHECK(where.get_future().get() != std::this_thread::get_id());
    }
}

TEST_CASE("Wait: futures and coroutines are completion tokens too") {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    std::future<Got> future = async_retry(gate, TakeToken{gate}, Deadline{},
                                          asio::bind_executor(hand.executor(), asio::use_future));
    Got got = Got::nothing;
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            TakeTokenForGood attempt{{gate}};
            got = co_await async_retry(gate, attempt, Deadline{}, asio::use_awaitable);
        },
        asio::detached);
    hand.poll();
    CHECK(gate->waiting() == 2);
    gate->add(2);
    hand.run();
    CHECK(future.get() == Got::token);
    CHECK(got == Got::token);
}

TEST_CASE("Wait: a suspended operation is work for its executor") {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    bool ran = false;
    async_retry(gate, TakeToken{gate}, Deadline{},
                asio::bind_executor(hand.executor(), [&](Got) { ran = true; }));
    std::thread other{[&] {
        while (gate->waiting() == 0) std::this_thread::yield();
        gate->add(1);
    }};
    hand.run();  // returns only once nothing is left to do
    other.join();
    CHECK(ran);
}

TEST_CASE("Wait: a refused operation goes back to the head, and is refused as often as it takes") {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    std::vector<int> order;
    const auto wait = [&](int number) {
        async_retry(
            gate, TakeToken{gate}, Deadline{},
            asio::bind_executor(hand.executor(), [&, number](Got) { order.push_back(number); }));
    };
    wait(1);
    wait(2);
    for (int i = 0; i < 5; ++i) {
        gate->add(1);   // wakes 1
        gate->empty();  // somebody else is faster
        hand.poll();
        CHECK(order.empty());
        CHECK(gate->waiting() == 2);
    }
    gate->add(1);
    hand.poll();
    CHECK(order == std::vector{1});
    gate->add(1);
    hand.poll();
    CHECK(order == std::vector{1, 2});
}

TEMPLATE_TEST_CASE("Wait: the handler's allocator serves the operation, and gets all of it back",
                   "", TakeToken, TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    Allocations counts;
    asio::cancellation_signal signal;
    int ran = 0;
    auto hand = std::make_unique<HandPolled>();
    const auto start = [&](Deadline deadline) {
        async_retry(gate, TestType{{gate}}, deadline,
                    FullHandler{hand->executor(), counts, signal.slot(), [&](Got) { ++ran; }});
    };
    SECTION("at once") {
        gate->add(1);
        start({});
        hand->poll();
    }
    SECTION("after a wait, with a refusal between") {
        start(std::chrono::hours{1});
        hand->poll();
        gate->add(1);
        gate->empty();
        hand->poll();
        gate->add(1);
        hand->poll();
    }
    SECTION("too late") {
        start(past);
        hand->poll();
    }
    SECTION("cancelled") {
        start({});
        hand->poll();
        signal.emit(asio::cancellation_type::terminal);
        hand->poll();
    }
    SECTION("destroyed while suspended") {
        start(std::chrono::hours{1});
        hand->poll();
        hand.reset();
        ++ran;
    }
    SECTION("destroyed while the completion is queued") {
        start({});
        hand->poll();
        gate->add(1);
        hand.reset();
        ++ran;
    }
    SECTION("destroyed before its first turn") {
        start({});
        hand.reset();
        ++ran;
    }
    CHECK(ran == 1);
    CHECK(counts.made > 0);
    CHECK(counts.bytes_left == 0);
    CHECK(gate->waiting() == 0);
}

TEST_CASE("Wait: a context without other work does not stop before the handler has run") {
    const auto gate = std::make_shared<Gate>();
    asio::io_context context;
    std::vector<Got> got;
    // Refused at the first try; at the second look there is a token.
    gate->on_enqueue = [&] { gate->add(1); };
    async_retry(std::shared_ptr<rondo::detail::WaitPoint>{gate}, TakeToken{gate}, Deadline{},
                asio::bind_executor(context, [&](Got result) { got.push_back(result); }));
    CHECK_FALSE(context.stopped());
    context.run();
    CHECK(got == std::vector{Got::token});
}
