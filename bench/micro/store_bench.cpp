// SPDX-License-Identifier: Apache-2.0
// What the store's operations cost, beside the floors of the same run: a machine's absolute times
// say little.
//
//   memcpy_floor/SPEC/k    k samples, each to its place in a ring of one array
//   protocol_floor         one compare-and-swap and one add: what the protocol cannot do without
//   reserve_commit/k       the protocol alone, nothing is copied
//   ingest/SPEC/k          reserve, scatter k payloads to the arrays, commit
#include "micro/specs.hpp"
#include "ring/copy.hpp"
#include "store/store.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

namespace {

using rondo::SampleSpec;
using rondo::bench::random_bytes;
using rondo::detail::Store;

constexpr std::uint64_t num_buffers = 3;

/// As many samples as make a ring of some 48 MiB, at most 4,096.
std::uint64_t batch_size_for(std::uint64_t payload_bytes) {
    return std::clamp<std::uint64_t>((std::uint64_t{16} << 20) / payload_bytes, 1, 4'096);
}

std::shared_ptr<Store> make_store(const SampleSpec& spec) {
    auto layout =
        rondo::detail::RingLayout::create(spec, batch_size_for(spec.payload_bytes()), num_buffers)
            .value();
    auto ring = rondo::detail::Ring::create(std::move(layout), {.prefault = true}).value();
    return std::make_shared<Store>(std::move(ring), false);
}

/// Empties the ring, as a learner would, when a reservation was refused.
void take_all(Store& store) {
    while (const auto leased = store.try_lease()) store.release(leased->batch);
}

void memcpy_floor(benchmark::State& state, const SampleSpec& spec, std::size_t count) {
    const auto bytes = static_cast<std::size_t>(spec.payload_bytes());
    const std::size_t slots = num_buffers * batch_size_for(bytes) / count * count;
    const auto from = random_bytes(bytes * count);
    auto to = random_bytes(bytes * std::max(slots, count));
    std::size_t at = 0;
    for (auto _ : state) {
        for (std::size_t i = 0; i < count; ++i) {
            std::memcpy(to.data() + (at + i) * bytes, from.data() + i * bytes, bytes);
            benchmark::ClobberMemory();
        }
        at += count;
        if (at >= slots) at = 0;
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

struct alignas(64) Line {
    std::atomic<std::uint64_t> value{0};
};

void protocol_floor(benchmark::State& state) {
    static Line cursor;
    static Line committed;
    for (auto _ : state) {
        std::uint64_t position = cursor.value.load(std::memory_order_relaxed);
        while (!cursor.value.compare_exchange_weak(position, position + 8,
                                                   std::memory_order_relaxed)) {
        }
        committed.value.fetch_add(8, std::memory_order_acq_rel);
    }
}
BENCHMARK(protocol_floor)->Threads(1)->Threads(2)->UseRealTime();

/// All threads share one store; whoever finds it full empties it.
void reserve_commit(benchmark::State& state) {
    static const auto store = make_store(rondo::bench::spec_named("tiny"));
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
BENCHMARK(reserve_commit)
    ->ArgName("k")
    ->Arg(1)
    ->Arg(8)
    ->Arg(32)
    ->Arg(4'096)  // a whole batch
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime();

void ingest(benchmark::State& state, const SampleSpec& spec, std::size_t count) {
    const auto store = make_store(spec);
    const auto from = random_bytes(spec.payload_bytes() * count);
    std::uint64_t samples = 0;
    for (auto _ : state) {
        auto slots = store->try_reserve(count);
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

[[maybe_unused]] const bool registered = [] {
    for (const auto& [name, spec] : rondo::bench::specs()) {
        for (const std::size_t count : std::array<std::size_t, 3>{1, 8, 32}) {
            if (count > 1 && spec.payload_bytes() > 8'192) continue;  // one at a time by nature
            const std::string row = name + "/k:" + std::to_string(count);
            benchmark::RegisterBenchmark(("memcpy_floor/" + row).c_str(), memcpy_floor, spec,
                                         count);
            benchmark::RegisterBenchmark(("ingest/" + row).c_str(), ingest, spec, count);
        }
    }
    return true;
}();

}  // namespace
