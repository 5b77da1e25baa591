// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>
#include <vector>

namespace rondo::detail {

/// Copied bytes that wait for the connection: small samples, or the rest of a large one whose
/// sender could not stay. A queue in one piece of memory, so that one write takes all of it.
class OutBuffer {
public:
    [[nodiscard]] bool empty() const noexcept { return head_ == bytes_.size(); }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() - head_; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return std::span{bytes_}.subspan(head_);
    }

    /// Makes room for `bytes` more, so that `append` of as much does not throw.
    void reserve(std::size_t bytes);
    void append(std::span<const std::byte> bytes);
    void consume(std::size_t bytes) noexcept;
    void clear() noexcept;

private:
    std::vector<std::byte> bytes_;
    std::size_t head_ = 0;
};

/// Rows of stacked arrays, written from where they lie, in the order of the stream.
class Gather {
public:
    Gather() = default;

    /// Points at rows `first` to `first + rows`, which must stay as they are until written.
    void assign(const SampleSpec& spec, std::span<const ArrayBytes> stacked, std::size_t first,
                std::size_t rows);

    /// What is left; empty when all is written. Writes may change it only by `advance`.
    [[nodiscard]] std::span<iovec> left() noexcept { return std::span{parts_}.subspan(next_); }
    [[nodiscard]] bool done() const noexcept { return next_ == parts_.size(); }
    void advance(std::size_t bytes) noexcept;

    /// Rows that the peer has got at least one byte of.
    [[nodiscard]] std::uint64_t rows_begun() const noexcept {
        return written_ / payload_ + (written_ % payload_ != 0 ? 1 : 0);
    }

    /// Copies what is left of the row that is under way, if any.
    void copy_rest_of_row(OutBuffer& out) const;

private:
    std::vector<iovec> parts_;
    std::size_t next_ = 0;
    std::uint64_t written_ = 0;
    std::uint64_t payload_ = 1;
};

/// Copies row `row` of stacked arrays. `out.reserve` comes first: then this does not throw.
void append_row(OutBuffer& out, const SampleSpec& spec, std::span<const ArrayBytes> stacked,
                std::size_t row);

}  // namespace rondo::detail
