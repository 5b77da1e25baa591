// SPDX-License-Identifier: Apache-2.0
#include "ingest/driver.hpp"
#include "ingest/programs.hpp"
#include <rondo/server.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

namespace rondo::bench {
namespace {

void note_ages(const Batch& batch, Ages& ages) {
    const std::uint64_t now = now_ns();
    const auto stamped = batch.array<std::byte>(0);
    const std::size_t item = stamped.size() / batch.size();
    std::uint64_t youngest = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < batch.size(); ++i) {
        std::uint64_t sent = 0;
        std::memcpy(&sent, stamped.data() + i * item, sizeof sent);
        ages.all.push_back(now - sent);
        youngest = std::min(youngest, now - sent);
    }
    ages.youngest.push_back(youngest);
}

}  // namespace

int serve(const ServeOptions& options) {
    const auto spec = SampleSpec::parse(options.spec);
    if (!spec) return std::fprintf(stderr, "%s\n", spec.error().message().c_str()), 1;
    auto server = Server::create(
        *spec,
        {.batch_size = options.batch_size, .num_buffers = options.num_buffers, .prefault = true});
    if (!server) return std::fprintf(stderr, "%s\n", server.error().message().c_str()), 1;
    const auto where = server->listen({});
    if (!where) return std::fprintf(stderr, "%s\n", where.error().message().c_str()), 1;

    auto& driver = *new Driver{where->port};  // see ~Driver
    std::uint64_t samples = 0;
    Ages ages;
    for (;;) {
        auto batch = server->blocking_sample();
        if (!batch) return std::fprintf(stderr, "%s\n", batch.error().message().c_str()), 1;
        samples += batch->size();
        if (options.ages) note_ages(*batch, ages);
        batch->release();
        if (driver.wants_reading()) Driver::print_reading(samples, ages);
    }
}

}  // namespace rondo::bench
