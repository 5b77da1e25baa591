// SPDX-License-Identifier: Apache-2.0
#include "transport/harness.hpp"

#include "wire/greeting.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace rondo::test {
namespace {

// A sample is a window of one long pattern; windows of different samples begin elsewhere.
constexpr std::size_t windows = 4'093;

Server create(const SampleSpec& spec, const ServerOptions& options) {
    auto server = Server::create(spec, options);
    if (!server) throw std::runtime_error{server.error().message()};
    return std::move(*server);
}

}  // namespace

SampleSpec spec_of(std::string_view text) {
    auto spec = SampleSpec::parse(text);
    if (!spec) throw std::runtime_error{spec.error().message()};
    return *spec;
}

SampleSpec spec_of_sizes(std::span<const std::uint64_t> sizes) {
    std::vector<ArraySpec> arrays;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        arrays.push_back({"a" + std::to_string(i), dtype::uint8, {sizes[i]}});
    }
    auto spec = SampleSpec::create(std::move(arrays));
    if (!spec) throw std::runtime_error{spec.error().message()};
    return *spec;
}

SampleSpec spec_of_bytes(std::uint64_t payload) {
    return spec_of_sizes(std::array{payload});
}

Listening::Listening(const SampleSpec& spec, const ServerOptions& options, const TcpOptions& tcp)
    : server{create(spec, options)} {
    auto where = server.listen(tcp);
    if (!where) throw std::runtime_error{where.error().message()};
    endpoint = *where;
    greeting = wire::encode_greeting(spec).value();
}

RawPeer Listening::greeted(RawPeer::Options options) const {
    RawPeer peer{endpoint, options};
    if (peer.read(greeting.size()) != greeting) throw std::runtime_error{"a wrong greeting"};
    return peer;
}

bool Listening::eventually(const std::function<bool(const Metrics&)>& condition) const {
    return test::eventually([&] { return condition(server.metrics()); });
}

Payloads::Payloads(std::uint64_t payload_bytes)
    : size_{static_cast<std::size_t>(payload_bytes)}, pattern_(size_ + windows + 8) {
    std::mt19937_64 random{20'240'229};
    for (std::size_t i = 0; i + 8 <= pattern_.size(); i += 8) {
        const std::uint64_t word = random();
        std::memcpy(pattern_.data() + i, &word, sizeof word);
    }
}

std::span<const std::byte> Payloads::pattern(std::uint32_t peer, std::uint32_t seq) const noexcept {
    const std::size_t window = (std::size_t{peer} * 1'009 + seq) % windows;
    return std::span{pattern_}.subspan(window, size_);
}

void Payloads::fill(std::span<std::byte> payload, std::uint32_t peer, std::uint32_t seq) const {
    std::ranges::copy(pattern(peer, seq), payload.begin());
    if (!has_ids()) return;
    std::memcpy(payload.data(), &peer, sizeof peer);
    std::memcpy(payload.data() + sizeof peer, &seq, sizeof seq);
}

Bytes Payloads::one(std::uint32_t peer, std::uint32_t seq) const {
    return many(peer, seq, 1);
}

Bytes Payloads::many(std::uint32_t peer, std::uint32_t first, std::uint32_t count) const {
    Bytes bytes(size_ * count);
    for (std::uint32_t i = 0; i < count; ++i) {
        fill(std::span{bytes}.subspan(i * size_, size_), peer, first + i);
    }
    return bytes;
}

void Verifier::check(const Batch& batch) {
    for (std::size_t sample = 0; sample < batch.size() && complaint_.empty(); ++sample) {
        std::size_t filled = 0;
        for (std::size_t array = 0; array < batch.spec().size(); ++array) {
            const auto bytes = static_cast<std::size_t>(batch.spec().array_bytes(array));
            const auto part = batch.array<std::byte>(array).subspan(sample * bytes, bytes);
            if (!part.empty()) std::memcpy(payload_.data() + filled, part.data(), part.size());
            filled += bytes;
        }
        check_payload();
        ++samples_;
    }
}

void Verifier::check_payload() {
    std::uint32_t peer = 0;
    std::uint32_t seq = next_[0];
    std::size_t ids = 0;
    if (payloads_.has_ids()) {
        std::memcpy(&peer, payload_.data(), sizeof peer);
        std::memcpy(&seq, payload_.data() + sizeof peer, sizeof seq);
        ids = Payloads::id_bytes;
    }
    const std::string what = "sample " + std::to_string(seq) + " of peer " + std::to_string(peer);
    const auto expected = payloads_.pattern(peer, seq).subspan(ids);
    if (std::memcmp(payload_.data() + ids, expected.data(), expected.size()) != 0) {
        complaint_ = what + " has other bytes";
    } else if (seq != next_[peer]) {
        complaint_ = what + " came in place of " + std::to_string(next_[peer]);
    }
    next_[peer] = seq + 1;
}

std::uint64_t Verifier::samples_of(std::uint32_t peer) const {
    const auto found = next_.find(peer);
    return found == next_.end() ? 0 : found->second;
}

void learn(Server& server, Verifier& verifier, std::uint64_t samples) {
    while (verifier.samples() < samples && verifier.complaint().empty()) {
        const auto batch = server.blocking_sample({.deadline = patience});
        if (!batch) throw std::runtime_error{"no batch: " + batch.error().message()};
        verifier.check(*batch);
    }
}

void learn_rest(Server& server, Verifier& verifier) {
    for (;;) {
        const auto batch = server.try_sample();
        if (!batch) return;
        if (!*batch) throw std::runtime_error{"a closed server neither has a batch nor says so"};
        verifier.check(**batch);
    }
}

std::uint64_t resident_bytes() {
    std::ifstream statm{"/proc/self/statm"};
    std::uint64_t pages = 0;
    statm >> pages >> pages;
    return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::vector<std::size_t> random_cuts(std::mt19937& random, std::size_t size, std::size_t payload,
                                     std::size_t count) {
    std::vector<std::size_t> cuts;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t cut = random() % size;
        if (random() % 2 == 0)
            cut = cut / payload * payload + random() % 5;  // edge - 2 .. edge + 2
        cuts.push_back(std::clamp<std::size_t>(cut < 2 ? cut : cut - 2, 1, size - 1));
    }
    std::ranges::sort(cuts);
    return cuts;
}

}  // namespace rondo::test
