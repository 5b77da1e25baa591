// SPDX-License-Identifier: Apache-2.0
// The store's hot paths, one per function, for scripts/instruction_gate: it runs
// `hot_paths NAME REPETITIONS` under callgrind, which counts only what the function of that name
// executes. Nothing in them waits, so the counts are the same on every run.
#include "ring/copy.hpp"
#include "store/store.hpp"
#include <rondo/rondo.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#define RONDO_GATE extern "C" [[gnu::noinline]] void

namespace {

using rondo::Sample;
using rondo::SampleSpec;
using rondo::Server;
using rondo::detail::Store;

constexpr std::uint64_t batch_size = 4'096;

SampleSpec spec() {
    return SampleSpec::parse("obs:float32[4],reward:float32[1]").value();
}

std::shared_ptr<Store> make_store() {
    auto layout = rondo::detail::RingLayout::create(spec(), batch_size, 3).value();
    auto ring = rondo::detail::Ring::create(std::move(layout), {.prefault = true}).value();
    return std::make_shared<Store>(std::move(ring), false);
}

Server make_server(std::uint64_t samples_in_batch, std::uint64_t num_buffers) {
    return Server::create(
               spec(),
               {.batch_size = samples_in_batch, .num_buffers = num_buffers, .prefault = true})
        .value();
}

/// Stops the program where a path would measure something else than it says.
void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

RONDO_GATE reserve_commit_8(Store& store, int repetitions) {
    for (int i = 0; i < repetitions; ++i) {
        const auto slots = store.try_reserve(8);
        require(slots.has_value());
        store.commit(*slots);
    }
}

RONDO_GATE copy_payloads_8(Store& store, const std::byte* payloads, int repetitions) {
    for (int i = 0; i < repetitions; ++i) {
        rondo::detail::copy_payload_in(store.ring(), 0, 8, 8, payloads);
    }
}

RONDO_GATE try_insert(Server& server, const Sample& sample, int repetitions) {
    for (int i = 0; i < repetitions; ++i) require(server.try_insert(sample).value());
}

RONDO_GATE sample_release(Server& server, int repetitions) {
    for (int i = 0; i < repetitions; ++i) require(server.try_sample().value().has_value());
}

int main(int argc, char** argv) {
    if (argc != 3) return std::fprintf(stderr, "usage: hot_paths NAME REPETITIONS\n"), 2;
    const std::string_view name{argv[1]};
    const int repetitions = std::atoi(argv[2]);
    const auto count = static_cast<std::uint64_t>(repetitions);

    if (name == "reserve_commit_8") {
        require(8 * count <= 3 * batch_size);
        reserve_commit_8(*make_store(), repetitions);
    } else if (name == "copy_payloads_8") {
        const std::vector<std::byte> payloads(8 * spec().payload_bytes(), std::byte{1});
        copy_payloads_8(*make_store(), payloads.data(), repetitions);
    } else if (name == "try_insert") {
        require(count <= 3 * batch_size);
        auto server = make_server(batch_size, 3);
        try_insert(server, Sample{spec()}, repetitions);
    } else if (name == "sample_release") {
        auto server = make_server(1, count);
        const Sample sample{spec()};
        for (int i = 0; i < repetitions; ++i) require(server.try_insert(sample).value());
        sample_release(server, repetitions);
    } else {
        return std::fprintf(stderr, "hot_paths: no path '%s'\n", argv[1]), 2;
    }
    return 0;
}
