// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/eventually.hpp"
#include "support/raw_peer.hpp"
#include <rondo/batch.hpp>
#include <rondo/server.hpp>
#include <rondo/spec.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

[[nodiscard]] SampleSpec spec_of(std::string_view text);

/// One array of bytes for each size.
[[nodiscard]] SampleSpec spec_of_sizes(std::span<const std::uint64_t> sizes);
[[nodiscard]] SampleSpec spec_of_bytes(std::uint64_t payload);

/// A server with one listener, and everything that a peer must know.
struct Listening {
    Listening(const SampleSpec& spec, const ServerOptions& options, const TcpOptions& tcp = {});

    Server server;
    Endpoint endpoint;
    Bytes greeting;

    /// A peer that has read and checked the greeting.
    [[nodiscard]] RawPeer greeted(RawPeer::Options options = {}) const;

    [[nodiscard]] bool eventually(const std::function<bool(const Metrics&)>& condition) const;
};

/// Pseudo-random payloads: sample `seq` of peer `peer` is always the same, and no other's. Both
/// numbers stand in the first eight bytes, if there is room for them.
/// Thread-safety: const members from any thread.
class Payloads {
public:
    explicit Payloads(std::uint64_t payload_bytes);

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    void fill(std::span<std::byte> payload, std::uint32_t peer, std::uint32_t seq) const;
    [[nodiscard]] Bytes one(std::uint32_t peer, std::uint32_t seq) const;

    /// Samples `first` to `first + count - 1`, back to back.
    [[nodiscard]] Bytes many(std::uint32_t peer, std::uint32_t first, std::uint32_t count) const;

    [[nodiscard]] bool has_ids() const noexcept { return size_ >= id_bytes; }
    static constexpr std::size_t id_bytes = 8;

    [[nodiscard]] std::span<const std::byte> pattern(std::uint32_t peer,
                                                     std::uint32_t seq) const noexcept;

private:
    std::size_t size_;
    Bytes pattern_;
};

/// Puts samples of a batch together again and checks each: its bytes, and that each peer's samples
/// come in their order, without a gap. Payloads too small for an identity must all be peer 0's.
class Verifier {
public:
    explicit Verifier(const Payloads& payloads) : payloads_{payloads}, payload_(payloads.size()) {}

    void check(const Batch& batch);

    [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
    [[nodiscard]] std::uint64_t samples_of(std::uint32_t peer) const;

    /// Empty, or the first thing that was wrong.
    [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }

private:
    void check_payload();

    const Payloads& payloads_;
    Bytes payload_;
    std::map<std::uint32_t, std::uint32_t> next_;
    std::uint64_t samples_ = 0;
    std::string complaint_;
};

/// Samples from the server until the verifier has seen `samples`, or something is wrong.
void learn(Server& server, Verifier& verifier, std::uint64_t samples);

/// Samples whatever is left in a server that was closed.
void learn_rest(Server& server, Verifier& verifier);

/// Resident memory of this process.
[[nodiscard]] std::uint64_t resident_bytes();

/// `count` ascending places to cut a stream of `size` bytes at; about half of them lie within a
/// byte or two of a sample's edge.
[[nodiscard]] std::vector<std::size_t> random_cuts(std::mt19937& random, std::size_t size,
                                                   std::size_t payload, std::size_t count);

}  // namespace rondo::test
