// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wire/error.hpp"
#include <rondo/spec.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rondo::wire {

/// The byte with which an echo/1 server says that one sample is committed.
inline constexpr std::byte ack{0x01};

/// Acks for `samples` samples, ready to be written, from static memory; at most `max_ack_bytes` of
/// them, so a caller with more writes again.
inline constexpr std::size_t max_ack_bytes = 4096;
[[nodiscard]] std::span<const std::byte> ack_bytes(std::size_t samples) noexcept;

/// Where samples begin and end in a stream of raw payloads, for both ways of reading it: small
/// samples are split out of a buffer, large ones are scattered into their slots.
///
/// Only arithmetic. `held` is what the caller has of the sample that is under way: its tail or its
/// side buffer; when the peer closes, a `held` above 0 is a truncated sample.
/// Thread-safety: an immutable value.
class PayloadFramer {
public:
    /// Precondition: spec.payload_bytes() > 0 (`check_speakable`).
    explicit PayloadFramer(const SampleSpec& spec) noexcept;

    struct Split {
        std::uint64_t samples;
        std::span<const std::byte> whole;  ///< `samples` payloads back to back
        std::span<const std::byte> rest;   ///< the next tail, shorter than a payload
    };
    [[nodiscard]] Split split(std::span<const std::byte> tail_and_data) const noexcept;

    /// Bytes that complete the sample under way; never 0. Precondition: held < payload.
    [[nodiscard]] std::uint64_t missing(std::uint64_t held) const noexcept;

    /// How many samples one `readv` can complete in place when `available` bytes are in the kernel,
    /// the one under way included; one iovec per array, at most IOV_MAX of them.
    /// Precondition: held < payload, can_scatter().
    [[nodiscard]] std::uint64_t scatter(std::uint64_t held, std::uint64_t available) const noexcept;

    /// False if a single sample has more arrays than a `readv` takes iovecs: then split.
    [[nodiscard]] bool can_scatter() const noexcept { return max_scatter_ > 0; }

private:
    std::uint64_t payload_;
    std::uint64_t max_scatter_;  // samples per readv
};

/// Counts the acks of an echo/1 server against the samples sent.
///
/// Acks carry no numbers: they count samples in the order of sending. The first bad byte ends it;
/// acks before it count, whatever the pieces in which the bytes came.
/// Thread-safety: none, one connection uses it.
class AckReader {
public:
    /// `samples` more are on their way. Called before their first byte is written, so that no ack
    /// overtakes it.
    void sent(std::uint64_t samples) noexcept { sent_ += samples; }

    struct Acks {
        std::uint64_t samples;           ///< newly acknowledged
        std::optional<WireError> error;  ///< `bad_ack` or `excess_acks`; the connection is over
    };
    Acks feed(std::span<const std::byte> bytes);

    /// Samples sent and not acknowledged.
    [[nodiscard]] std::uint64_t in_flight() const noexcept { return sent_ - acked_; }

private:
    std::uint64_t sent_ = 0;
    std::uint64_t acked_ = 0;
    std::optional<WireError> error_;
};

}  // namespace rondo::wire
