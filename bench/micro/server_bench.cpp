// SPDX-License-Identifier: Apache-2.0
// What the calls of a server cost that need not wait, and those that must.
#include "micro/specs.hpp"
#include <rondo/rondo.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

namespace {

using rondo::Sample;
using rondo::SampleSpec;
using rondo::Server;
using rondo::bench::spec_named;

/// Three buffers, some 96 MiB of small samples or more of large ones: beyond the caches, as a
/// learner's ring is.
Server make_server(const SampleSpec& spec) {
    const auto batch_size =
        std::clamp<std::uint64_t>((std::uint64_t{32} << 20) / spec.payload_bytes(), 1, 4'096);
    return Server::create(spec, {.batch_size = batch_size, .prefault = true}).value();
}

Sample random_sample(const SampleSpec& spec) {
    Sample sample{spec};
    const auto bytes = rondo::bench::random_bytes(spec.payload_bytes());
    for (std::size_t i = 0; i < spec.size(); ++i) {
        std::ranges::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(spec.array_offset(i)),
                            static_cast<std::ptrdiff_t>(spec.array_bytes(i)),
                            sample.array<std::byte>(i).begin());
    }
    return sample;
}

void try_insert(benchmark::State& state, const SampleSpec& spec) {
    auto server = make_server(spec);
    const Sample sample = random_sample(spec);
    for (auto _ : state) {
        while (!server.try_insert(sample).value()) benchmark::DoNotOptimize(server.try_sample());
    }
    state.SetItemsProcessed(state.iterations());
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(spec.payload_bytes()));
}

[[maybe_unused]] const bool registered = [] {
    for (const auto& [name, spec] : rondo::bench::specs()) {
        benchmark::RegisterBenchmark(("try_insert/" + name).c_str(), try_insert, spec);
    }
    return true;
}();

/// The coroutine form when it need not wait, batches included: every 4,096th also samples.
void awaited_insert(benchmark::State& state) {
    auto server = make_server(spec_named("tiny"));
    const Sample sample{server.spec()};
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

/// A learner and an actor on one thread that take turns: each insert fills a batch and each sample
/// empties the ring, so that one of the two suspends and is resumed for every item.
void suspend_resume(benchmark::State& state) {
    const SampleSpec& spec = spec_named("tiny");
    auto server = Server::create(spec, {.batch_size = 1, .num_buffers = 1}).value();
    const Sample sample{spec};
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

/// With a batch always ready: a lease and its release.
void sample_release(benchmark::State& state) {
    const SampleSpec& spec = spec_named("tiny");
    constexpr int buffers = 64;
    auto server = Server::create(spec, {.batch_size = 1, .num_buffers = buffers}).value();
    const Sample sample{spec};
    for (auto _ : state) {
        state.PauseTiming();
        while (server.try_insert(sample).value()) {
        }
        state.ResumeTiming();
        for (int i = 0; i < buffers; ++i) benchmark::DoNotOptimize(server.try_sample());
    }
    state.SetItemsProcessed(state.iterations() * buffers);
}
BENCHMARK(sample_release);

}  // namespace
