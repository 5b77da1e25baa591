// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cartpole.hpp"
#include <rondo/batch.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::cli {

/// What an actor of the demo sends for one step.
struct Transition {
    std::uint32_t actor = 0;
    std::uint64_t sequence = 0;          ///< counts the actor's transitions from 0
    std::chrono::nanoseconds sent_at{};  ///< on the steady clock, which all processes here share
    CartPoleState obs{};
    Push action{};
    float reward = 0;
    CartPoleState next_obs{};
    bool terminated = false;
    bool truncated = false;
};

/// The arrays of a transition. The last, `checksum`, is the FNV-1a hash of the bytes of all others.
[[nodiscard]] SampleSpec transition_spec();

/// A sample to be filled with one transition after another.
class TransitionSample {
public:
    TransitionSample();

    /// Fills the sample, its checksum included, and returns it.
    Sample& fill(const Transition& transition);

private:
    Sample sample_;
    std::span<std::uint32_t> actor_;
    std::span<std::uint64_t> sequence_;
    std::span<std::int64_t> sent_at_;
    std::span<double> obs_;
    std::span<std::uint8_t> action_;
    std::span<float> reward_;
    std::span<double> next_obs_;
    std::span<bool> terminated_;
    std::span<bool> truncated_;
    std::span<std::uint64_t> checksum_;
};

/// The transitions of a batch, read in place. Valid as long as the batch's lease.
class TransitionBatch {
public:
    /// Precondition: the batch has `transition_spec`.
    explicit TransitionBatch(const Batch& batch);

    /// The checksum that came with the sample, and the one that its bytes have.
    [[nodiscard]] std::uint64_t checksum(std::size_t row) const { return checksum_[row]; }
    [[nodiscard]] std::uint64_t computed_checksum(std::size_t row) const;

    [[nodiscard]] std::uint32_t actor(std::size_t row) const { return actor_[row]; }
    [[nodiscard]] std::uint64_t sequence(std::size_t row) const { return sequence_[row]; }

    /// Precondition: the checksum is right, else the flags may hold bytes that are no bool.
    [[nodiscard]] Transition transition(std::size_t row) const;

private:
    struct Column {
        ArrayBytes bytes;
        std::size_t row_bytes;
    };

    std::span<const std::uint32_t> actor_;
    std::span<const std::uint64_t> sequence_;
    std::span<const std::int64_t> sent_at_;
    std::span<const double> obs_;
    std::span<const std::uint8_t> action_;
    std::span<const float> reward_;
    std::span<const double> next_obs_;
    std::span<const bool> terminated_;
    std::span<const bool> truncated_;
    std::span<const std::uint64_t> checksum_;
    std::array<Column, 9> checked_;  // all but the checksum
};

}  // namespace rondo::cli
