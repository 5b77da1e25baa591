// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include <rondo/server.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace rondo;
using namespace rondo::test;

namespace {

struct Load {
    ServerOptions ring;
    std::uint32_t peers = 1;
    std::uint32_t samples = 1;  // of each peer; together a multiple of the batch size
    std::uint32_t samples_a_write = 1;
};

/// Peers send at once, the learner checks every byte, the peers read exactly their acks.
void exchange(const SampleSpec& spec, const Load& load) {
    Listening listening{spec, load.ring};
    const Payloads payloads{spec.payload_bytes()};
    std::vector<std::future<std::uint64_t>> peers;
    for (std::uint32_t id = 0; id < load.peers; ++id) {
        peers.push_back(std::async(std::launch::async, [&, id] {
            RawPeer peer = listening.greeted();
            for (std::uint32_t seq = 0; seq < load.samples; seq += load.samples_a_write) {
                const std::uint32_t count = std::min(load.samples_a_write, load.samples - seq);
                peer.write(payloads.many(id, seq, count));
            }
            peer.half_close();
            return peer.read_acks_to_end();
        }));
    }
    Verifier verifier{payloads};
    learn(listening.server, verifier, std::uint64_t{load.peers} * load.samples);
    CHECK(verifier.complaint() == "");
    for (auto& acks : peers) CHECK(acks.get() == load.samples);
    CHECK(listening.eventually([](const Metrics& now) { return now.active_connections == 0; }));
    const Metrics metrics = listening.server.metrics();
    CHECK(metrics.samples_received_total == std::uint64_t{load.peers} * load.samples);
    CHECK(metrics.bytes_received_total == metrics.samples_received_total * spec.payload_bytes());
    CHECK(metrics.truncated_samples_total == 0);
    CHECK(metrics.side_buffer_bytes == 0);
}

std::vector<std::uint64_t> array_sizes(std::size_t arrays, std::uint64_t smallest,
                                       std::uint64_t largest) {
    std::mt19937_64 random{arrays};
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < arrays; ++i) {
        sizes.push_back(smallest + random() % (largest - smallest + 1));
    }
    return sizes;
}

}  // namespace

TEST_CASE("Tcp: payloads of every size arrive as they were sent") {
    struct Case {
        std::uint64_t bytes;
        std::uint64_t batch_size;
        std::uint32_t samples;
        std::uint32_t samples_a_write;
    };
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto size =
        GENERATE(Case{1, 64, 4'096, 100}, Case{20, 32, 1'600, 7}, Case{8'191, 8, 160, 3},
                 Case{8'192, 8, 160, 3}, Case{8'193, 8, 160, 3}, Case{65'536, 4, 80, 2},
                 Case{1U << 20U, 2, 12, 1}, Case{16U << 20U, 1, 2, 1});
    const std::uint32_t peers = size.bytes == 1 ? 1 : 3;
    exchange(spec_of_bytes(size.bytes),
             {.ring = {.batch_size = size.batch_size, .num_buffers = 3, .io_threads = io_threads},
              .peers = peers,
              .samples = size.samples,
              .samples_a_write = size.samples_a_write});
}

TEST_CASE("Tcp: samples of many arrays of odd sizes arrive in their arrays") {
    struct Case {
        std::size_t arrays;
        std::uint64_t smallest, largest;  // bytes of an array; together below or above 8,192
        std::uint32_t samples;
    };
    const auto io_threads = GENERATE(1U, 2U, 4U);
    // More arrays than a readv takes in one call, as well.
    const auto shape = GENERATE(Case{5, 1, 9, 320}, Case{5, 3'000, 5'001, 80}, Case{44, 0, 17, 320},
                                Case{44, 0, 3'333, 80}, Case{1'500, 0, 3, 80},
                                Case{1'500, 0, 35, 40}, Case{2'500, 1, 1'333, 8});
    auto sizes = array_sizes(shape.arrays, shape.smallest, shape.largest);
    sizes.front() |= 1U;  // never aligned
    exchange(spec_of_sizes(sizes), {.ring = {.batch_size = 8, .io_threads = io_threads},
                                    .peers = 2,
                                    .samples = shape.samples,
                                    .samples_a_write = 5});
}

TEST_CASE("Tcp: arrays of 0 bytes take part without a byte") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    const auto spec =
        GENERATE(as<std::string>{}, "a:uint8[0],b:float32[3],c:float64[0,7],d:uint8[]",
                 "a:uint8[0],b:uint8[9001],c:float64[2,0],d:uint8[3],e:float32[0]");
    exchange(spec_of(spec), {.ring = {.batch_size = 4, .io_threads = io_threads},
                             .peers = 2,
                             .samples = 40,
                             .samples_a_write = 3});
}
