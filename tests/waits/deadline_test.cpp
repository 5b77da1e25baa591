// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/handlers.hpp"
#include <rondo/log.hpp>

#include <asio/bind_executor.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>

#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using rondo::Deadline;
using rondo::detail::async_retry;
using rondo::test::Gate;
using rondo::test::Got;
using rondo::test::HandPolled;
using rondo::test::TakeToken;
using rondo::test::TakeTokenForGood;
using namespace std::chrono_literals;

namespace {

using Gots = std::vector<Got>;
using Clock = Deadline::Clock;

const Deadline past{Clock::now() - 1h};

/// Collects rondo's log lines for as long as it lives.
class Lines {
public:
    Lines() {
        rondo::set_log_sink(
            [this](rondo::LogLevel, std::string_view line) { all.emplace_back(line); });
    }
    ~Lines() { rondo::set_log_sink({}); }
    Lines(const Lines&) = delete;
    Lines& operator=(const Lines&) = delete;

    std::vector<std::string> all;
};

}  // namespace

TEMPLATE_TEST_CASE("Wait: a deadline that has passed lets an operation succeed that need not wait",
                   "", TakeToken, TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    Gots got;
    const auto handler = [&] {
        return asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); });
    };
    gate->add(1);
    async_retry(gate, TestType{{gate}}, past, handler());
    async_retry(gate, TestType{{gate}}, past, handler());
    hand.poll();
    CHECK(got == Gots{Got::token, Got::timed_out});
    CHECK(gate->waiting() == 0);
}

TEMPLATE_TEST_CASE("Wait: a deadline ends a wait, and not before its time", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    Gots got;
    const auto at = Clock::now() + 5ms;
    async_retry(gate, TestType{{gate}}, Deadline{at},
                asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); }));
    hand.run();
    CHECK(Clock::now() >= at);
    CHECK(got == Gots{Got::timed_out});
    CHECK(gate->waiting() == 0);
    CHECK(gate->passed_on() == 0);
}

TEMPLATE_TEST_CASE("Wait: a wake before the deadline stops the timer", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    Gots got;
    async_retry(gate, TestType{{gate}}, Deadline{24h},
                asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); }));
    hand.poll();
    gate->add(1);
    hand.run();  // would last a day
    CHECK(got == Gots{Got::token});
}

TEMPLATE_TEST_CASE("Wait: woken in time, an operation succeeds even if it runs late", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    Gots got;
    Deadline soon;
    do {  // again if this thread slept through the deadline before it could suspend
        got.clear();
        soon = Deadline{2ms};
        async_retry(gate, TestType{{gate}}, soon,
                    asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); }));
        if (gate->waiting() == 0) hand.poll_one();
    } while (gate->waiting() == 0);
    gate->add(1);
    while (!soon.passed()) std::this_thread::yield();
    hand.run();
    CHECK(got == Gots{Got::token});
}

TEMPLATE_TEST_CASE("Wait: refused after the deadline, an operation ends", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    Gots got;
    const Deadline soon{2ms};
    async_retry(gate, TestType{{gate}}, soon,
                asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); }));
    hand.poll();
    gate->add(1);
    gate->empty();
    while (!soon.passed()) std::this_thread::yield();
    hand.run();
    CHECK(got == Gots{Got::timed_out});
    CHECK(gate->waiting() == 0);
}

TEMPLATE_TEST_CASE("Wait: a timer may expire before there is a wait to end", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    Gots got;
    // One thread runs the timer while the operation is still on its way, here or on another thread.
    asio::thread_pool timers{rondo::detail::TakesForGood<TestType> ? 2 : 1};
    std::promise<void> done;
    const Deadline soon{3ms};
    gate->on_enqueue = [&] {
        // Our marker expires after the operation's timer, on a queue that keeps the order.
        std::promise<void> expired;
        asio::steady_timer marker{timers, soon.at() + 1us};
        marker.async_wait([&](std::error_code) { expired.set_value(); });
        expired.get_future().wait();
    };
    async_retry(gate, TestType{{gate}}, soon, asio::bind_executor(timers, [&](Got g) {
                    got.push_back(g);
                    done.set_value();
                }));
    if (!rondo::detail::TakesForGood<TestType>) {
        REQUIRE(gate->waiting() == 0);  // the initiating function saw to it
    }
    done.get_future().wait();
    timers.join();
    CHECK(got == Gots{Got::timed_out});
    CHECK(gate->waiting() == 0);
}

TEST_CASE("Wait: a timer that is queued when its operation completes finds nothing") {
    // The operation is refused, arms its timer, and finds a token at the second look. Meanwhile the
    // timer has expired and its handler waits for the strand, which is busy.
    const auto gate = std::make_shared<Gate>();
    asio::thread_pool pool{2};
    auto strand = asio::make_strand(pool);
    std::promise<void> busy;
    std::promise<void> let_go;
    asio::post(strand, [&] {
        busy.set_value();
        let_go.get_future().wait();
    });
    busy.get_future().wait();
    bool suspended = false;
    std::promise<Got> got;
    // Again, with more patience, if this thread slept through the deadline before it could suspend.
    for (auto patience = 3ms; !suspended; patience *= 4) {
        const Deadline soon{patience};
        gate->on_enqueue = [&] {
            suspended = true;
            std::promise<void> expired;
            asio::steady_timer marker{pool, soon.at() + 1us};
            marker.async_wait([&](std::error_code) { expired.set_value(); });
            expired.get_future().wait();
            gate->add(1);
        };
        async_retry(gate, TakeToken{gate}, soon, asio::bind_executor(strand, [&](Got g) {
                        if (g == Got::token) got.set_value(g);
                    }));
    }
    let_go.set_value();
    CHECK(got.get_future().get() == Got::token);
    pool.join();
}

TEMPLATE_TEST_CASE("Wait: deadlines that race with wakes lose no token and no operation", "",
                   TakeToken, TakeTokenForGood) {
    constexpr int rounds = 40;
    constexpr int operations = 16;
    std::mt19937 random{7};
    std::uniform_int_distribution<int> micros{0, 300};
    const auto gate = std::make_shared<Gate>();
    std::atomic<int> tokens{0};
    std::atomic<int> late{0};
    int added = 0;
    asio::thread_pool pool{2};
    std::atomic<int> left{0};
    for (int round = 0; round < rounds; ++round) {
        left = operations;
        for (int i = 0; i < operations; ++i) {
            async_retry(gate, TestType{{gate}}, Deadline{std::chrono::microseconds{micros(random)}},
                        asio::bind_executor(pool, [&](Got g) {
                            ++(g == Got::token ? tokens : late);
                            --left;
                        }));
            if (i % 2 == 0) {
                gate->add(1);
                ++added;
            }
        }
        while (left > 0) std::this_thread::yield();  // hangs if a deadline is lost
    }
    pool.join();
    CHECK(gate->waiting() == 0);
    CHECK(tokens + late == rounds * operations);
    CHECK(static_cast<int>(gate->tokens()) + tokens == added);
}

TEST_CASE("Wait: a deadline survives refusals on several threads") {
    // Woken in vain again and again, on threads that also run the timers.
    const auto gate = std::make_shared<Gate>();
    asio::thread_pool pool{2};
    std::mt19937 random{11};
    std::uniform_int_distribution<int> micros{50, 400};
    for (int round = 0; round < 100; ++round) {
        std::promise<Got> got;
        auto future = got.get_future();
        async_retry(gate, TakeToken{gate}, Deadline{std::chrono::microseconds{micros(random)}},
                    asio::bind_executor(pool, [&](Got g) { got.set_value(g); }));
        while (future.wait_for(0s) != std::future_status::ready) {
            gate->add(1);
            gate->empty();
        }
        const Got end = future.get();
        CHECK((end == Got::timed_out || end == Got::token));
    }
    pool.join();
    CHECK(gate->waiting() == 0);
}

TEST_CASE("Wait: a wait that may never end says so once, and goes on") {
    Lines lines;
    const auto gate = std::make_shared<Gate>();
    HandPolled hand;
    Gots got;
    const auto handler = [&] {
        return asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); });
    };
    gate->to_say = Gate::Warning{0s, "nobody holds a token"};

    SECTION("it waited for ever") {
        async_retry(gate, TakeToken{gate}, Deadline{}, handler());
        while (lines.all.empty()) hand.poll();
        CHECK(lines.all == std::vector<std::string>{"nobody holds a token"});
        CHECK(got.empty());
        CHECK(gate->waiting() == 1);
        gate->add(1);
        hand.run();
        CHECK(got == Gots{Got::token});
        CHECK(lines.all.size() == 1);
    }
    SECTION("it is true no more") {
        async_retry(gate, TakeToken{gate}, Deadline{}, handler());
        gate->to_say = std::nullopt;
        asio::steady_timer marker{hand.context(), 1ms};
        bool marked = false;
        marker.async_wait([&](std::error_code) { marked = true; });
        while (!marked) hand.poll();
        CHECK(lines.all.empty());
        gate->add(1);
        hand.run();
        CHECK(got == Gots{Got::token});
    }
    SECTION("it was woken first") {
        gate->to_say->after = 24h;
        async_retry(gate, TakeToken{gate}, Deadline{}, handler());
        gate->add(1);
        hand.run();
        CHECK(got == Gots{Got::token});
        CHECK(lines.all.empty());
    }
    SECTION("it has a deadline, which will say it") {
        async_retry(gate, TakeToken{gate}, Deadline{2ms}, handler());
        hand.run();
        CHECK(got == Gots{Got::timed_out});
        CHECK(lines.all.empty());
    }
}
