// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small stores and servers whose samples are one number each. What only makes a value may be called
// from any thread; what needs something of a store or a server asserts, on the test's own.

#include "store/store.hpp"
#include "support/catch.hpp"
#include <rondo/server.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::test {

inline SampleSpec spec_of(std::string_view text) {
    return SampleSpec::parse(text).value();
}

/// The spec of a sample that is one number.
inline SampleSpec id_spec() {
    return spec_of("id:uint64[]");
}

inline std::shared_ptr<detail::Store> store_of(std::uint64_t batch_size, std::uint64_t num_buffers,
                                               bool deliver_short_batch = false,
                                               std::string_view spec = "id:uint64[]") {
    auto layout = detail::RingLayout::create(spec_of(spec), batch_size, num_buffers);
    REQUIRE(layout.has_value());
    auto ring = detail::Ring::create(*std::move(layout));
    REQUIRE(ring.has_value());
    return std::make_shared<detail::Store>(*std::move(ring), deliver_short_batch);
}

inline void write_id(detail::Store& store, std::uint64_t buffer, std::uint64_t slot,
                     std::uint64_t id) {
    std::memcpy(store.ring().slot(0, buffer, slot), &id, sizeof id);
}

inline std::uint64_t read_id(const detail::Store& store, std::uint64_t buffer, std::uint64_t slot) {
    std::uint64_t id = 0;
    std::memcpy(&id, store.ring().slot(0, buffer, slot), sizeof id);
    return id;
}

/// Reserves and commits up to `count` slots of what is one batch; returns how many.
inline std::uint64_t put(detail::Store& store, std::uint64_t count) {
    const auto slots = store.try_reserve(count);
    if (!slots) return 0;
    store.commit(*slots);
    return slots->count;
}

inline Server server_of(ServerOptions options, std::string_view spec = "id:uint64[]") {
    auto server = Server::create(spec_of(spec), options);
    REQUIRE(server.has_value());
    return *std::move(server);
}

inline Sample sample_of(std::uint64_t id) {
    Sample sample{id_spec()};
    sample.array<std::uint64_t>(0)[0] = id;
    return sample;
}

/// Inserts the next `count` numbers, which must fit.
inline void fill(Server& server, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t id = first; id < first + count; ++id) {
        const auto inserted = server.try_insert(sample_of(id));
        REQUIRE(inserted.has_value());
        REQUIRE(*inserted);
    }
}

inline std::vector<std::uint64_t> ids_of(const Batch& batch) {
    const auto ids = batch.array<std::uint64_t>(0);
    return {ids.begin(), ids.end()};
}

/// `first`, `first + 1`, ...
inline std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint64_t> all(count);
    for (auto& number : all) number = first++;
    return all;
}

/// The next batch, which must be complete.
inline Batch take(Server& server) {
    auto batch = server.try_sample();
    REQUIRE(batch.has_value());
    REQUIRE(batch->has_value());
    return *std::move(*batch);
}

/// Bytes of one number, as a caller's stacked array.
inline ArrayBytes bytes_of(const std::vector<std::uint64_t>& stacked) {
    return std::as_bytes(std::span{stacked});
}

}  // namespace rondo::test
