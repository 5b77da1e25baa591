// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

/// The arrays of one rate at which an actor produces data: e.g. a step's, or an episode's.
struct Timescale {
    std::string name;

    /// Paths within the timescale (`""` if it is a single array). Shapes are those of the whole
    /// sample: `{64, 4}` for 64 steps of 4 numbers.
    std::vector<ArraySpec> arrays;
};

/// Why there is no accumulator, or why something was not added to one.
struct AccumulatorError {
    enum class Code : std::uint8_t {
        no_arrays,           ///< a timescale without arrays, or no timescale at all
        leading_dimensions,  ///< they differ within a timescale
        bad_spec,            ///< all arrays together are no `SampleSpec`; `detail` says why
        unknown_timescale,   ///< `detail` names those that there are
        full,                ///< the timescale has had all its adds
        mismatch,            ///< the arrays are not what the timescale takes; nothing was written
    };

    Code code{};
    std::string timescale{};     ///< its name
    std::uint64_t capacity = 0;  ///< adds that the timescale takes; 0 if that is not known
    std::uint64_t index = 0;     ///< the add that was refused, from 0 on
    std::string detail{};

    [[nodiscard]] std::string message() const;
};

/// Puts one sample together from data that come at several rates: 64 steps and one episode, say.
///
/// The arrays are grouped into *timescales*. In a buffered one all arrays share a leading dimension
/// N > 1; it takes N adds, and add k writes row k of each array. A timescale with a scalar array,
/// or all of whose leading dimensions are 1, is a single item: its one add replaces every array as
/// a whole. The memory is allocated once and filled again after each `build`.
///
/// Ownership: owns its memory; movable. Copies nothing but what is added.
/// Thread-safety: as for a vector. It knows no server: see `Server::insert`, `TcpClient::send`.
class TrajectoryAccumulator {
public:
    /// The sample's arrays are those of the timescales, in this order; an array's path is the
    /// timescale's name, as one key, and its path within that.
    /// Errors: `no_arrays`, `leading_dimensions`, `bad_spec`.
    [[nodiscard]] static tl::expected<TrajectoryAccumulator, AccumulatorError> create(
        std::vector<Timescale> timescales);

    /// For a spec that a server or a client has: arrays whose paths begin with the same key are one
    /// timescale, named after that key.
    /// Errors: `leading_dimensions`.
    [[nodiscard]] static tl::expected<TrajectoryAccumulator, AccumulatorError> create(
        const SampleSpec& spec);

    /// Copies one item into the timescale's next row. `arrays` are those of the timescale, in its
    /// order, each of one row (buffered) or whole (single item).
    /// Errors: `unknown_timescale`, `full`, `mismatch`; then nothing was written.
    tl::expected<void, AccumulatorError> add(std::string_view timescale,
                                             std::span<const ArrayBytes> arrays);
    tl::expected<void, AccumulatorError> add(std::string_view timescale, const Sample& item) {
        return add(timescale, item.arrays());
    }

    /// Hands over the sample, without a copy, and begins a new one: every timescale takes its adds
    /// again. Rows that had no add since the last `build` or `reset` keep what was there before
    /// (zero at first): ask `full` first where that matters.
    /// Lifetimes: it is the accumulator's own, valid until that is moved or destroyed, and stays as
    /// it is until the next `add`. So let an `insert` or `send` of it complete first.
    [[nodiscard]] const Sample& build() noexcept;

    /// Begins a new sample without handing anything over, e.g. when an episode is aborted.
    void reset() noexcept;

    /// True if every timescale has had all its adds.
    [[nodiscard]] bool full() const noexcept;

    /// What `build` hands over.
    [[nodiscard]] const SampleSpec& spec() const noexcept { return sample_.spec(); }

    /// What one `add` takes, with paths within the timescale; nothing if there is none of this
    /// name. `Sample item{*accumulator.item_spec("step")}` is something to fill and add.
    [[nodiscard]] std::optional<SampleSpec> item_spec(std::string_view timescale) const;

private:
    struct Slots {
        std::string name;
        std::vector<std::size_t> arrays;  // indices into the spec
        SampleSpec item;
        std::uint64_t capacity;
        std::uint64_t added;
    };

    TrajectoryAccumulator(SampleSpec spec, std::vector<Slots> timescales);
    static tl::expected<Slots, AccumulatorError> make_slots(std::string name,
                                                            std::vector<std::size_t> arrays,
                                                            std::vector<ArraySpec> items);
    [[nodiscard]] AccumulatorError unknown(std::string_view timescale) const;

    Sample sample_;
    std::vector<Slots> timescales_;
};

}  // namespace rondo
