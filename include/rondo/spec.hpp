// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/dtype.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo {

/// One leaf of a sample's tree: where it is, what its elements are, and how many.
///
/// `path` is the tree's keys joined by `/`, each escaped as in JSON pointer (RFC 6901: `~` is `~0`,
/// `/` is `~1`); a tree that is one array has the path `""`. `shape` is C-ordered, without the
/// batch dimension; `{}` is a scalar (one element), and a dimension of 0 makes an array of 0 bytes.
struct ArraySpec {
    std::string path;
    dtype type;
    std::vector<std::uint64_t> shape;

    /// `obs:float32[4]`, with a backslash before each `, : [ ] \` of the path.
    [[nodiscard]] std::string text() const;

    friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

/// Why a `SampleSpec` could not be made; `message` is a sentence with the values and the remedy.
struct SpecError {
    enum class Code : std::uint8_t {
        no_arrays,
        too_many_arrays,
        duplicate_path,
        size_overflow,  ///< a product of dimensions, or the sum of the arrays, exceeds 64 bits
        too_large,      ///< the payload exceeds `SpecLimits::max_payload_bytes`
        syntax,         ///< the text form cannot be read; `message` quotes it and marks the place
    };

    Code code{};
    std::string what;

    [[nodiscard]] const std::string& message() const noexcept { return what; }
};

/// What `SampleSpec` accepts. The defaults guard against a misread shape, not against a machine.
struct SpecLimits {
    std::uint64_t max_payload_bytes = std::uint64_t{1} << 30;  ///< of one sample; raise at will
    std::size_t max_arrays = 65'536;
};

/// The ordered arrays that every sample of a server consists of.
///
/// A sample's *payload* is the bytes of its arrays, concatenated in this order without padding.
/// An immutable value that copies by sharing (one reference count); a move is a copy, so that no
/// spec is ever empty. Thread-safety: as for a value; any number of threads may read one object.
class SampleSpec {
public:
    SampleSpec(const SampleSpec&) noexcept = default;
    SampleSpec& operator=(const SampleSpec&) noexcept = default;
    // NOLINTNEXTLINE(performance-move-constructor-init): a move is a copy, by design
    SampleSpec(SampleSpec&& other) noexcept : SampleSpec{std::as_const(other)} {}
    SampleSpec& operator=(SampleSpec&& other) noexcept { return *this = std::as_const(other); }
    ~SampleSpec() = default;

    /// Errors: `SpecError` when there is no array, a path occurs twice, or a size overflows or
    /// exceeds `limits`.
    [[nodiscard]] static tl::expected<SampleSpec, SpecError> create(std::vector<ArraySpec> arrays,
                                                                    SpecLimits limits = {});

    /// Reads the text form, e.g. `obs:float32[4],reward:float32[]`; the inverse of `text`.
    /// Errors: as `create`, and `Code::syntax`.
    [[nodiscard]] static tl::expected<SampleSpec, SpecError> parse(std::string_view text,
                                                                   SpecLimits limits = {});

    [[nodiscard]] std::span<const ArraySpec> arrays() const noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return arrays().size(); }

    /// Bytes of one sample: the sum of `array_bytes` over all arrays.
    [[nodiscard]] std::uint64_t payload_bytes() const noexcept;

    /// Bytes of one sample's array `index`. Precondition: index < size().
    [[nodiscard]] std::uint64_t array_bytes(std::size_t index) const noexcept;

    /// Where array `index` begins in a payload. Precondition: index < size().
    [[nodiscard]] std::uint64_t array_offset(std::size_t index) const noexcept;

    /// The index of the array with this path, or nothing. Linear in `size()`.
    [[nodiscard]] std::optional<std::size_t> find(std::string_view path) const noexcept;

    [[nodiscard]] std::string text() const;

    /// Same arrays (path, dtype and shape) in the same order.
    friend bool operator==(const SampleSpec& a, const SampleSpec& b) noexcept;

private:
    struct Layout;
    explicit SampleSpec(std::shared_ptr<const Layout> layout) noexcept;
    std::shared_ptr<const Layout> layout_;
};

/// What tells `theirs` from `ours`, for a person: one line for each array that is missing, extra,
/// or differs (both sides' dtype and shape shown); one sentence if only the order differs; empty
/// when equal. At most 20 such lines, then the number of those left out; no newline at the end.
/// Fit for a log whatever a peer put into its paths. `ours_name` and `theirs_name` are what the
/// lines call the two sides, e.g. "server" and "client".
[[nodiscard]] std::string difference(const SampleSpec& ours, const SampleSpec& theirs,
                                     std::string_view ours_name = "ours",
                                     std::string_view theirs_name = "theirs");

}  // namespace rondo
