// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/handlers.hpp"

#include <asio/bind_executor.hpp>

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

/// Two operations wait, in this order; the first can be cancelled.
template <typename Attempt>
struct Two {
    std::shared_ptr<Gate> gate = std::make_shared<Gate>();
    Allocations counts;
    asio::cancellation_signal signal;
    std::vector<Got> first;
    std::vector<Got> second;
    HandPolled hand;  // last: what it still holds is destroyed with it

    explicit Two(Deadline deadline = {}) {
        async_retry(gate, Attempt{{gate}}, deadline,
                    FullHandler{hand.executor(), counts, signal.slot(),
                                [this](Got got) { first.push_back(got); }});
        async_retry(
            gate, Attempt{{gate}}, Deadline{},
            asio::bind_executor(hand.executor(), [this](Got got) { second.push_back(got); }));
    }

    void cancel(asio::cancellation_type type = asio::cancellation_type::total) {
        signal.emit(type);
    }
};

using Gots = std::vector<Got>;

}  // namespace

TEMPLATE_TEST_CASE("Wait: cancelled while suspended, an operation ends and leaves no trace", "",
                   TakeToken, TakeTokenForGood) {
    for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total, asio::cancellation_type::all}) {
        Two<TestType> two;
        two.hand.poll();
        REQUIRE(two.gate->waiting() == 2);
        two.cancel(type);
        CHECK(two.gate->waiting() == 1);
        CHECK(two.first.empty());  // not inside emit
        two.hand.poll();
        CHECK(two.first == Gots{Got::cancelled});
        CHECK(two.gate->passed_on() == 0);  // it had no permit
        two.gate->add(1);
        two.hand.poll();
        CHECK(two.second == Gots{Got::token});
        CHECK(two.first.size() == 1);
    }
}

TEMPLATE_TEST_CASE("Wait: a cancellation of no type is none", "", TakeToken, TakeTokenForGood) {
    Two<TestType> two;
    two.hand.poll();
    two.cancel(asio::cancellation_type::none);
    two.hand.poll();
    CHECK(two.gate->waiting() == 2);
    two.gate->add(2);
    two.hand.poll();
    CHECK(two.first == Gots{Got::token});
}

TEMPLATE_TEST_CASE("Wait: cancelled after its wake, an operation takes nothing: the next one does",
                   "", TakeToken, TakeTokenForGood) {
    Two<TestType> two;
    two.hand.poll();
    two.gate->add(1);
    CHECK(two.gate->waiting() == 1);  // the first was woken, and has not run
    two.cancel();
    two.hand.poll();
    CHECK(two.first == Gots{Got::cancelled});
    CHECK(two.second == Gots{Got::token});
    CHECK(two.gate->passed_on() == 1);
    CHECK(two.gate->tokens() == 0);
}

TEMPLATE_TEST_CASE("Wait: cancelled before its first turn, an operation takes nothing", "",
                   TakeTokenForGood) {
    Two<TestType> two;
    two.cancel();
    two.gate->add(1);
    two.hand.poll();
    CHECK(two.first == Gots{Got::cancelled});
    CHECK(two.second == Gots{Got::token});
}

TEMPLATE_TEST_CASE("Wait: cancelled twice, an operation ends once", "", TakeToken,
                   TakeTokenForGood) {
    Two<TestType> two;
    two.hand.poll();
    two.cancel();
    two.cancel();
    two.hand.poll();
    two.cancel();
    two.hand.poll();
    CHECK(two.first == Gots{Got::cancelled});
    CHECK(two.gate->waiting() == 1);
    two.gate->add(1);
    two.hand.poll();
}

TEMPLATE_TEST_CASE("Wait: cancelled after a refusal, an operation ends", "", TakeToken,
                   TakeTokenForGood) {
    Two<TestType> two;
    two.hand.poll();
    two.gate->add(1);
    two.gate->empty();
    two.hand.poll();
    REQUIRE(two.first.empty());
    two.cancel();
    two.hand.poll();
    CHECK(two.first == Gots{Got::cancelled});
    two.gate->add(1);
    two.hand.poll();
    CHECK(two.second == Gots{Got::token});
}

TEMPLATE_TEST_CASE("Wait: the slot is free again when the handler runs", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    Allocations counts;
    asio::cancellation_signal signal;
    HandPolled hand;
    bool occupied = true;
    const auto start = [&] {
        async_retry(gate, TestType{{gate}}, Deadline{},
                    FullHandler{hand.executor(), counts, signal.slot(),
                                [&](Got) { occupied = signal.slot().has_handler(); }});
    };
    SECTION("after a wait") {
        start();
        hand.poll();
        CHECK(signal.slot().has_handler());
        gate->add(1);
    }
    SECTION("at once") {
        gate->add(1);
        start();
    }
    SECTION("because a token came before the second look") {
        gate->on_enqueue = [&] { gate->add(1); };
        start();
    }
    hand.poll();
    CHECK_FALSE(occupied);
    signal.emit(asio::cancellation_type::all);  // reaches nobody
}

TEMPLATE_TEST_CASE("Wait: of a cancellation and a deadline, the first decides", "", TakeToken,
                   TakeTokenForGood) {
    SECTION("cancelled first") {
        Two<TestType> two{std::chrono::hours{24}};
        two.hand.poll();
        two.cancel();
        two.gate->add(1);
        two.hand.run();
        CHECK(two.first == Gots{Got::cancelled});
        CHECK(two.second == Gots{Got::token});
    }
    SECTION("expired first") {
        Two<TestType> two{std::chrono::milliseconds{5}};
        two.hand.poll();
        while (two.gate->waiting() == 2) two.hand.poll_one();
        two.cancel();
        two.gate->add(1);
        two.hand.run();
        CHECK(two.first == Gots{Got::timed_out});
        CHECK(two.second == Gots{Got::token});
    }
}
