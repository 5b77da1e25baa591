// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/gate.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using rondo::Deadline;
using rondo::detail::async_retry;
using rondo::detail::ContextWait;
using rondo::detail::WaitContext;
using rondo::test::Gate;
using rondo::test::Got;
using rondo::test::HandPolled;
using rondo::test::TakeToken;
using rondo::test::TakeTokenForGood;
using namespace std::chrono_literals;

namespace {

using Gots = std::vector<Got>;

/// A wait that says when `shutdown` asks for it, and what became of it.
struct ScriptedWait final : ContextWait {
    explicit ScriptedWait(bool claimable_now) : claimable{claimable_now} {}

    void post_completion() override { ++posted; }
    bool claim() noexcept override {
        claimed = true;
        claimed.notify_all();
        return claimable;
    }
    void destroy_unrun() noexcept override { ++destroyed; }

    const bool claimable;  ///< false: a waker has unlinked it from its wait point
    std::atomic<bool> claimed{false};
    int posted = 0;
    int destroyed = 0;
};

}  // namespace

TEMPLATE_TEST_CASE("Wait: an executor that dies takes its suspended operations along", "",
                   TakeToken, TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    const auto held = std::make_shared<int>();
    bool ran = false;
    {
        HandPolled hand;
        for (const Deadline deadline : {Deadline{}, Deadline{1h}}) {
            async_retry(gate, TestType{{gate}}, deadline,
                        asio::bind_executor(hand.executor(), [&ran, held](Got) { ran = true; }));
        }
        hand.poll();
        CHECK(gate->waiting() == 2);
        CHECK(held.use_count() == 3);
    }
    CHECK(held.use_count() == 1);
    CHECK(gate->waiting() == 0);
    CHECK(gate->passed_on() == 0);
    CHECK_FALSE(ran);
    CHECK(gate.use_count() == 1);
}

TEMPLATE_TEST_CASE("Wait: a permit that dies with its executor is passed on", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    HandPolled survivor;
    Gots got;
    auto doomed = std::make_unique<HandPolled>();
    bool ran = false;
    async_retry(gate, TestType{{gate}}, Deadline{},
                asio::bind_executor(doomed->executor(), [&](Got) { ran = true; }));
    doomed->poll();
    async_retry(gate, TestType{{gate}}, Deadline{},
                asio::bind_executor(survivor.executor(), [&](Got g) { got.push_back(g); }));
    survivor.poll();
    gate->add(1);
    survivor.poll();
    CHECK(got.empty());  // the doomed one was first
    doomed.reset();
    CHECK(gate->passed_on() == 1);
    survivor.poll();
    CHECK(got == Gots{Got::token});
    CHECK_FALSE(ran);
}

TEMPLATE_TEST_CASE("Wait: the same for an executor that is a strand, or a pool", "", TakeToken,
                   TakeTokenForGood) {
    const auto gate = std::make_shared<Gate>();
    const auto held = std::make_shared<int>();
    SECTION("strand") {
        auto hand = std::make_unique<HandPolled>();
        {
            auto strand = asio::make_strand(hand->context());
            for (int i = 0; i < 2; ++i) {
                async_retry(gate, TestType{{gate}}, Deadline{},
                            asio::bind_executor(strand, [held](Got) {}));
            }
        }
        hand->poll();
        gate->add(1);  // one queued, one suspended
        hand.reset();
    }
    SECTION("pool") {
        asio::thread_pool pool{2};
        for (int i = 0; i < 8; ++i) {
            async_retry(gate, TestType{{gate}}, Deadline{1h},
                        asio::bind_executor(pool, [held](Got) {}));
        }
        pool.stop();
        gate->add(4);
    }
    CHECK(held.use_count() == 1);
    CHECK(gate->waiting() == 0);
}

TEST_CASE("Wait: what is waited for lives until the wait has ended") {
    auto gate = std::make_shared<Gate>();
    const std::weak_ptr<Gate> watched = gate;
    HandPolled hand;
    Gots got;
    async_retry(gate, TakeToken{gate}, Deadline{},
                asio::bind_executor(hand.executor(), [&](Got g) { got.push_back(g); }));
    gate.reset();
    CHECK_FALSE(watched.expired());
    watched.lock()->add(1);
    CHECK_FALSE(watched.expired());
    hand.poll();
    CHECK(got == Gots{Got::token});
    CHECK(watched.expired());
}

TEST_CASE("Wait: a handler that dies may end other waits, and begin new ones") {
    // As a coroutine that owns a batch does.
    const auto gate = std::make_shared<Gate>();
    struct Giver {
        std::shared_ptr<Gate> gate;
        HandPolled* hand;
        explicit Giver(std::shared_ptr<Gate> to, HandPolled* on) : gate{std::move(to)}, hand{on} {}
        Giver(const Giver&) = delete;
        Giver& operator=(const Giver&) = delete;
        ~Giver() {
            const auto other = std::make_shared<Gate>();
            async_retry(other, TakeToken{other}, Deadline{1h},
                        asio::bind_executor(hand->executor(), [](Got) {}));
            gate->add(1);
        }
    };
    HandPolled survivor;
    Gots got;
    {
        HandPolled doomed;
        for (int i = 0; i < 3; ++i) {
            auto giver = std::make_shared<Giver>(gate, &doomed);
            async_retry(gate, TakeToken{gate}, Deadline{},
                        asio::bind_executor(doomed.executor(), [giver](Got) {}));
        }
        for (int i = 0; i < 3; ++i) {
            async_retry(gate, TakeToken{gate}, Deadline{},
                        asio::bind_executor(survivor.executor(), [&](Got g) { got.push_back(g); }));
        }
    }
    survivor.poll();
    CHECK(got == Gots{Got::token, Got::token, Got::token});
    CHECK(gate->waiting() == 0);
}

TEST_CASE("Wait: an executor that dies waits for a waker that is on its way to it") {
    WaitContext waits;
    ScriptedWait unlinked_by_waker{false};
    ScriptedWait suspended{true};
    REQUIRE(waits.add(unlinked_by_waker));
    REQUIRE(waits.add(suspended));
    std::thread dying{[&] { waits.shutdown(); }};
    suspended.claimed.wait(false);
    // `shutdown` holds its lock from there until it waits, so this comes after its look.
    waits.post(unlinked_by_waker);
    dying.join();
    CHECK(suspended.destroyed == 1);
    CHECK(unlinked_by_waker.destroyed == 1);
    CHECK(unlinked_by_waker.posted == 0);
}

TEST_CASE("Wait: an executor that dies while others wake its operations loses no permit") {
    constexpr int rounds = 150;
    constexpr std::uint64_t operations = 4;
    const auto gate = std::make_shared<Gate>();
    const auto held = std::make_shared<int>();
    for (int round = 0; round < rounds; ++round) {
        auto doomed = std::make_unique<HandPolled>();
        HandPolled survivor;
        std::uint64_t got = 0;
        const Deadline deadline = round % 2 == 0 ? Deadline{} : Deadline{1h};
        for (std::uint64_t i = 0; i < operations; ++i) {
            async_retry(gate, TakeToken{gate}, deadline,
                        asio::bind_executor(doomed->executor(), [held](Got) {}));
            async_retry(gate, TakeToken{gate}, Deadline{},
                        asio::bind_executor(survivor.executor(), [&got, held](Got) { ++got; }));
        }
        std::atomic<bool> go{false};
        std::thread waker{[&] {
            while (!go) {
            }
            for (std::uint64_t i = 0; i < operations; ++i) gate->add(1);
        }};
        go = true;
        doomed.reset();
        waker.join();
        survivor.poll();
        REQUIRE(got == operations);
        REQUIRE(gate->waiting() == 0);
        REQUIRE(gate->tokens() == 0);
    }
    CHECK(held.use_count() == 1);
}

TEST_CASE("Wait: coroutines destroyed with their executor free all that they hold") {
    const auto store = rondo::test::store_of(1, 1);
    auto server = rondo::test::server_of({.batch_size = 1, .num_buffers = 2});
    const auto held = std::make_shared<int>();
    {
        HandPolled hand;
        const auto insert = [&, held]() -> asio::awaitable<void> {
            const auto mine = held;
            const auto sample = rondo::test::sample_of(1);
            (void)co_await server.insert(sample);
        };
        const auto sample = [&, held]() -> asio::awaitable<void> {
            const auto mine = held;
            std::vector<rondo::Batch> kept;
            for (;;) {
                auto batch = co_await server.sample();
                if (!batch) co_return;
                kept.push_back(*std::move(batch));
            }
        };
        asio::co_spawn(hand.context(), sample, asio::detached);
        for (int i = 0; i < 4; ++i) asio::co_spawn(hand.context(), insert, asio::detached);
        hand.poll();
        CHECK(server.metrics().live_leases == 2);
        CHECK(server.metrics().producers_waiting == 2);
        CHECK(server.metrics().consumers_waiting == 1);
    }
    // The sampler's batches came back, and the two who waited for room died without using it.
    CHECK(server.metrics().live_leases == 0);
    CHECK(server.metrics().producers_waiting == 0);
    CHECK(server.metrics().consumers_waiting == 0);
    rondo::test::fill(server, 0, 2);
}
