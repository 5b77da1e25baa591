// SPDX-License-Identifier: Apache-2.0
// What the store's operations cost. Read them as multiples of `memcpy_floor` of the same run: a
// machine's absolute times say little.
#include "ring/copy.hpp"
#include "store/store.hpp"
#include <rondo/rondo.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using rondo::SampleSpec;
using rondo::detail::Store;

SampleSpec parse(const char* text) {
    return SampleSpec::parse(text).value();
}

const char* const tiny = "obs:float32[4],reward:float32[1]";  // 20 B
const char* const k1 =
    "obs:float32[110],action:float32[16],next_obs:float32[110],reward:float32[10],done:float32[10]";

std::shared_ptr<Store> make_store(const char* spec, std::uint64_t batch_size) {
    auto layout = rondo::detail::RingLayout::create(parse(spec), batch_size, 3).value();
    auto ring = rondo::detail::Ring::create(std::move(layout), {.prefault = true}).value();
    return std::make_shared<Store>(std::move(ring), false);
}

// Never zero pages: the kernel maps those to one page that is always cached.
std::vector<std::byte> random_bytes(std::size_t count) {
    std::vector<std::byte> bytes(count);
    std::mt19937_64 random{42};
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

// Empties the ring, as a learner would, when a reservation was refused.
void take_all(Store& store) {
    while (const auto leased = store.try_lease()) store.release(leased->batch);
}

void memcpy_floor(benchmark::State& state) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    const auto from = random_bytes(bytes);
    std::vector<std::byte> to(bytes * 4'096);
    std::size_t at = 0;
    for (auto _ : state) {
        std::memcpy(to.data() + at * bytes, from.data(), bytes);
        benchmark::ClobberMemory();
        at = (at + 1) % 4'096;
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(memcpy_floor)->Arg(20)->Arg(1'024);

// The protocol alone: k slots a time, nothing is copied.
void reserve_commit(benchmark::State& state) {
    const auto store = make_store(tiny, 4'096);
    const auto wanted = static_cast<std::uint64_t>(state.range(0));
    std::uint64_t samples = 0;
    for (auto _ : state) {
        auto slots = store->try_reserve(wanted);
        if (!slots) {
            take_all(*store);
            continue;
        }
        store->commit(*slots);
        samples += slots->count;
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(samples));
}
BENCHMARK(reserve_commit)->Arg(1)->Arg(8)->Arg(32)->Arg(4'096);

// Payloads as they come from a socket: reserve, scatter to the arrays, commit.
void ingest(benchmark::State& state, const char* spec) {
    const auto store = make_store(spec, 4'096);
    const auto wanted = static_cast<std::uint64_t>(state.range(0));
    const auto payload = store->ring().layout().payload_bytes();
    const auto from = random_bytes(payload * wanted);
    std::uint64_t samples = 0;
    for (auto _ : state) {
        auto slots = store->try_reserve(wanted);
        if (!slots) {
            take_all(*store);
            continue;
        }
        rondo::detail::copy_payload_in(store->ring(), slots->buffer, slots->first_slot,
                                       slots->count, from.data());
        store->commit(*slots);
        samples += slots->count;
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(samples));
}
BENCHMARK_CAPTURE(ingest, tiny, tiny)->Arg(1)->Arg(8)->Arg(32);
BENCHMARK_CAPTURE(ingest, k1, k1)->Arg(1)->Arg(8)->Arg(32);

void try_insert(benchmark::State& state, const char* text) {
    const SampleSpec spec = parse(text);
    auto server = rondo::Server::create(spec, {.batch_size = 4'096, .prefault = true}).value();
    const rondo::Sample sample{spec};
    for (auto _ : state) {
        while (!server.try_insert(sample).value()) benchmark::DoNotOptimize(server.try_sample());
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(try_insert, tiny, tiny);
BENCHMARK_CAPTURE(try_insert, k1, k1);

// The coroutine form when it need not wait, batches included: every 4,096th also samples.
void awaited_insert(benchmark::State& state) {
    const SampleSpec spec = parse(tiny);
    auto server = rondo::Server::create(spec, {.batch_size = 4'096, .prefault = true}).value();
    const rondo::Sample sample{spec};
    asio::io_context io;
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> {
            std::uint64_t inserted = 0;
            for (auto _ : state) {
                (void)co_await server.insert(sample);
                if (++inserted % 4'096 == 0) (void)co_await server.sample();
            }
        },
        asio::detached);
    io.run();
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(awaited_insert);

// A learner and an actor on one thread that take turns: each insert fills a batch and each sample
// empties the ring, so that one of the two suspends and is resumed for every item.
void suspend_resume(benchmark::State& state) {
    const SampleSpec spec = parse(tiny);
    auto server = rondo::Server::create(spec, {.batch_size = 1, .num_buffers = 1}).value();
    const rondo::Sample sample{spec};
    asio::io_context io;
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> {
            while (co_await server.insert(sample)) {
            }
        },
        asio::detached);
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> {
            for (auto _ : state) (void)co_await server.sample();
            server.close();
        },
        asio::detached);
    io.run();
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(suspend_resume);

// With a batch always ready.
void sample_release(benchmark::State& state) {
    const SampleSpec spec = parse(tiny);
    auto server = rondo::Server::create(spec, {.batch_size = 1, .num_buffers = 64}).value();
    const rondo::Sample sample{spec};
    for (auto _ : state) {
        state.PauseTiming();
        while (server.try_insert(sample).value()) {
        }
        state.ResumeTiming();
        for (int i = 0; i < 64; ++i) benchmark::DoNotOptimize(server.try_sample());
    }
    state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(sample_release);

}  // namespace
