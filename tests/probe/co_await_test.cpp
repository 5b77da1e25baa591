// SPDX-License-Identifier: Apache-2.0
//
// g++ 12 destroys some temporaries of a full expression that contains a `co_await` twice: members
// of a braced aggregate that is passed by value, non-trivial captures of a lambda, the branches of
// a conditional operator. Users write such expressions with rondo's coroutine forms, so those are
// built to be safe in them: a form takes references, values that are trivially destructible, or
// types with constructors of their own, and is an ordinary function that hands its state to a
// coroutine before it returns.
//
// The test counts: every object that is an argument of a public coroutine form, as a temporary, is
// destroyed exactly once. Under the address sanitizer, what rondo itself passes on is checked too.
#include "support/catch.hpp"
#include "support/handlers.hpp"
#include "support/stores.hpp"
#include <rondo/rondo.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_awaitable.hpp>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using rondo::ArrayBytes;
using rondo::Deadline;
using rondo::Sample;
using rondo::SampleSpec;
using rondo::Server;
using rondo::test::bytes_of;
using rondo::test::HandPolled;
using rondo::test::id_spec;
using rondo::test::numbers;
using rondo::test::server_of;
using namespace std::chrono_literals;

// What may be a braced temporary in a `co_await` must have nothing to destroy.
static_assert(std::is_trivially_destructible_v<rondo::SampleOptions>);
static_assert(std::is_trivially_destructible_v<rondo::TcpClientOptions>);
static_assert(std::is_trivially_destructible_v<rondo::Deadline>);

namespace {

/// Counts how many of it there are.
struct Counted {
    static inline int made = 0;
    static inline int destroyed = 0;

    static void reset() { made = destroyed = 0; }

    Counted() { ++made; }
    Counted(const Counted&) { ++made; }
    Counted(Counted&&) noexcept { ++made; }
    Counted& operator=(const Counted&) = default;
    Counted& operator=(Counted&&) noexcept = default;
    ~Counted() { ++destroyed; }
};

// Arguments for rondo that know how often they were destroyed. Each has a constructor: as an
// aggregate its temporary would fall to the fault by itself, whatever it is passed to.
struct CountedSample : Sample {
    using Sample::Sample;
    Counted counted;
};

struct CountedArrays {
    explicit CountedArrays(std::size_t count) : ids{numbers(0, count)}, arrays{bytes_of(ids)} {}
    operator std::span<const ArrayBytes>() const { return arrays; }  // NOLINT: as a user's type has
    std::vector<std::uint64_t> ids;
    std::vector<ArrayBytes> arrays;
    Counted counted;
};

struct CountedPatience {
    CountedPatience() {}  // NOLINT(modernize-use-equals-default): or it is an aggregate
    operator Deadline() const { return Deadline{5s}; }  // NOLINT: as a user's type has
    Counted counted;
};

struct CountedName {
    CountedName() {}  // NOLINT(modernize-use-equals-default): or it is an aggregate
    operator std::string_view() const { return name; }  // NOLINT: as a user's type has
    std::string name = "127.0.0.1";
    Counted counted;
};

struct CountedSpec {
    CountedSpec() {}  // NOLINT(modernize-use-equals-default): or it is an aggregate
    operator SampleSpec() const { return id_spec(); }  // NOLINT: as a user's type has
    Counted counted;
};

/// Runs the coroutine to its end; true if it got there.
template <typename Coroutine>
bool run(Coroutine coroutine) {
    HandPolled hand;
    bool done = false;
    Counted::reset();
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            co_await coroutine();
            done = true;
        },
        asio::detached);
    hand.run();
    CHECK(Counted::made > 0);
    CHECK(Counted::destroyed == Counted::made);
    return done;
}

}  // namespace

TEST_CASE("Probe: temporaries in a co_await of insert are destroyed once") {
    auto server = server_of({.batch_size = 64, .num_buffers = 2});
    const auto spec = id_spec();
    CHECK(run([&]() -> asio::awaitable<void> {
        (void)co_await server.insert(CountedSample{spec});
        (void)co_await server.insert(CountedSample{spec}, CountedPatience{});
        (void)co_await server.insert(CountedSample{spec}, 5s);
        (void)co_await server.insert(CountedArrays{1}, CountedPatience{});
        (void)co_await server.insert_many(CountedArrays{3}, 3);
        (void)co_await server.insert_many(CountedArrays{3}, 3, CountedPatience{});
        (void)co_await server.async_insert(CountedSample{spec}, asio::use_awaitable);
        (void)co_await server.async_insert_many(CountedArrays{3}, 3, asio::use_awaitable,
                                                CountedPatience{});
        const bool ok = (co_await server.insert(CountedSample{spec})).has_value();
        CHECK(ok);
    }));
    CHECK(server.metrics().samples_inserted_total == 15);
}

TEST_CASE("Probe: temporaries in a co_await that suspends are destroyed once") {
    auto server = server_of({.batch_size = 1, .num_buffers = 1});
    const auto spec = id_spec();
    REQUIRE(*server.try_insert(Sample{spec}));
    HandPolled hand;
    int done = 0;
    Counted::reset();
    for (int i = 0; i < 2; ++i) {
        asio::co_spawn(
            hand.context(),
            [&]() -> asio::awaitable<void> {
                const auto inserted =
                    co_await server.insert(CountedSample{spec}, CountedPatience{});
                done += inserted.has_value() ? 1 : 0;
            },
            asio::detached);
    }
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> {
            for (int i = 0; i < 3; ++i) {
                const auto batch = co_await server.sample({.deadline = CountedPatience{}});
                done += batch.has_value() ? 1 : 0;
            }
        },
        asio::detached);
    hand.run();
    CHECK(done == 5);
    CHECK(Counted::made > 0);
    CHECK(Counted::destroyed == Counted::made);
}

TEST_CASE("Probe: temporaries in a co_await of sample are destroyed once") {
    auto server = server_of({.batch_size = 1, .num_buffers = 2});
    const auto spec = id_spec();
    std::size_t sizes = 0;
    CHECK(run([&]() -> asio::awaitable<void> {
        for (int i = 0; i < 3; ++i) {
            (void)co_await server.insert(CountedSample{spec});
            const auto batch = co_await server.sample({.deadline = CountedPatience{}});
            sizes += batch->size();
        }
        (void)co_await server.insert(CountedSample{spec});
        sizes += (co_await server.sample({.deadline = 5s}))->array<std::uint64_t>("id").size();
        (void)co_await server.insert(CountedSample{spec});
        sizes += (co_await server.async_sample(asio::use_awaitable, {.deadline = 5s}))->size();
        const auto late = co_await server.sample({.deadline = Deadline{1us}});
        CHECK_FALSE(late.has_value());
    }));
    CHECK(sizes == 5);
    CHECK(server.metrics().live_leases == 0);  // each temporary batch came back, once
    CHECK(server.metrics().batches_released_total == 5);
}

TEST_CASE("Probe: temporaries in a co_await of the client's calls are destroyed once") {
    auto server = server_of({.batch_size = 8, .num_buffers = 4});
    const auto where = server.listen({.address = "127.0.0.1", .port = 0});
    REQUIRE(where.has_value());
    const auto spec = id_spec();
    bool connected = false;
    std::uint64_t left = 1;
    CHECK(run([&]() -> asio::awaitable<void> {
        auto client = co_await rondo::TcpClient::connect(CountedName{}, where->port, CountedSpec{},
                                                         {.connect_timeout = 5s});
        connected = client.has_value();
        if (!connected) co_return;
        (void)co_await client->send(CountedSample{spec});
        (void)co_await client->send(CountedSample{spec}, CountedPatience{});
        (void)co_await client->send(CountedArrays{1}, CountedPatience{});
        (void)co_await client->send_many(CountedArrays{3}, 3, CountedPatience{});
        const bool acknowledged = (co_await client->wait(CountedPatience{})).has_value();
        CHECK(acknowledged);
        left = co_await client->close(CountedPatience{});
    }));
    CHECK(connected);
    CHECK(left == 0);
    CHECK(server.metrics().samples_inserted_total == 6);
}

namespace {

// What rondo does not have: an aggregate with something to destroy, taken by value.
struct Aggregate {
    Counted counted;
    int value = 0;
};

asio::awaitable<int> by_value(Aggregate aggregate) {
    co_return aggregate.value;
}

}  // namespace

TEST_CASE("Probe: a braced aggregate by value shows whether this compiler has the fault") {
    int value = 0;
    HandPolled hand;
    Counted::reset();
    asio::co_spawn(
        hand.context(),
        [&]() -> asio::awaitable<void> { value = co_await by_value({.counted = {}, .value = 7}); },
        asio::detached);
    hand.run();
    CHECK(value == 7);
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    if (Counted::destroyed != Counted::made) {
        WARN("this compiler destroyed " << Counted::destroyed << " of " << Counted::made
                                        << " objects, as g++ 12 does");
    }
#else
    CHECK(Counted::destroyed == Counted::made);
#endif
}
