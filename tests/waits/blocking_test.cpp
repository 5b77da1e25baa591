// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/gate.hpp"
#include <rondo/detail/blocking_retry.hpp>

#include <atomic>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

using rondo::Deadline;
using rondo::detail::blocking_retry;
using rondo::test::Gate;
using rondo::test::Got;
using rondo::test::TakeToken;
using namespace std::chrono_literals;

TEST_CASE("Wait: a blocking operation that need not wait does not, whatever its deadline") {
    const auto gate = std::make_shared<Gate>();
    gate->add(2);
    CHECK(blocking_retry(*gate, TakeToken{gate}, {}) == Got::token);
    CHECK(blocking_retry(*gate, TakeToken{gate}, Deadline{Deadline::Clock::now() - 1h}) ==
          Got::token);
    CHECK(blocking_retry(*gate, TakeToken{gate}, Deadline{Deadline::Clock::now() - 1h}) ==
          Got::timed_out);
    const Deadline soon{2ms};
    CHECK(blocking_retry(*gate, TakeToken{gate}, soon) == Got::timed_out);
    CHECK(soon.passed());
    CHECK(gate->waiting() == 0);
}

TEST_CASE("Wait: a blocking operation looks again before it sleeps") {
    const auto gate = std::make_shared<Gate>();
    gate->on_enqueue = [&] { gate->add(1); };
    CHECK(blocking_retry(*gate, TakeToken{gate}, {}) == Got::token);
}

TEST_CASE("Wait: a thread is woken once for each wake, also by one that came first") {
    rondo::detail::BlockingWaiter waiter;
    CHECK_FALSE(waiter.wait(Deadline{Deadline::Clock::now()}));
    waiter.wake();
    CHECK(waiter.wait({}));
    CHECK_FALSE(waiter.wait(1ms));
    waiter.wake();
    CHECK(waiter.wait(Deadline{Deadline::Clock::now()}));
}

TEST_CASE("Wait: a signal ends no wait") {
    struct sigaction before {};
    struct sigaction ignore {};
    ignore.sa_handler = [](int) {};  // without SA_RESTART: system calls end with EINTR
    REQUIRE(::sigaction(SIGUSR1, &ignore, &before) == 0);
    rondo::detail::BlockingWaiter waiter;
    std::atomic<bool> returned{false};
    std::thread waiting{[&] {
        CHECK(waiter.wait(1h));
        returned = true;
    }};
    for (int signals = 0; signals < 20; ++signals) {
        REQUIRE(::pthread_kill(waiting.native_handle(), SIGUSR1) == 0);
        std::this_thread::sleep_for(1ms);  // or they would arrive as one
    }
    CHECK_FALSE(returned);
    waiter.wake();
    waiting.join();
    CHECK(returned);
    REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

TEST_CASE("Wait: threads are woken in order, and refused ones wait on") {
    const auto gate = std::make_shared<Gate>();
    std::atomic<int> first{0};
    std::atomic<int> second{0};
    std::thread one{[&] { first = static_cast<int>(blocking_retry(*gate, TakeToken{gate}, {})); }};
    while (gate->waiting() < 1) std::this_thread::yield();
    std::thread two{[&] { second = static_cast<int>(blocking_retry(*gate, TakeToken{gate}, 1h)); }};
    while (gate->waiting() < 2) std::this_thread::yield();
    gate->add(1);
    one.join();
    CHECK(first == static_cast<int>(Got::token));
    CHECK(second == 0);
    gate->add(1);
    two.join();
    CHECK(second == static_cast<int>(Got::token));
}

TEST_CASE("Wait: blocking deadlines that race with wakes lose no token") {
    const auto gate = std::make_shared<Gate>();
    constexpr int threads = 3;
    constexpr int rounds = 300;
    std::atomic<int> tokens{0};
    std::atomic<int> running{threads};
    std::vector<std::thread> waiting;
    for (int t = 0; t < threads; ++t) {
        waiting.emplace_back([&, t] {
            std::mt19937 random{static_cast<unsigned>(t)};
            std::uniform_int_distribution<int> micros{0, 200};
            for (int i = 0; i < rounds; ++i) {
                const Deadline soon{std::chrono::microseconds{micros(random)}};
                if (blocking_retry(*gate, TakeToken{gate}, soon) == Got::token) ++tokens;
            }
            --running;
        });
    }
    int added = 0;
    while (running > 0) {
        gate->add(1);
        ++added;
        std::this_thread::yield();
    }
    for (auto& thread : waiting) thread.join();
    CHECK(gate->waiting() == 0);
    CHECK(static_cast<int>(gate->tokens()) + tokens == added);
}
