// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/batch.hpp>
#include <rondo/detail/async_retry.hpp>
#include <rondo/error.hpp>
#include <rondo/sample.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rondo {

/// What `sample` does when the buffer that the next batch needs is leased: the batch taken
/// `num_buffers` batches ago has not been released. Until it is, no batch can come to anybody.
enum class WhenNextLeased : std::uint8_t {
    by_form,  ///< the blocking form fails if the calling thread leased it, others wait
    wait,
    fail,  ///< whoever leased it
};

namespace detail {

class ServerCore;
enum class LeasedNext : std::uint8_t;

/// Inserts stacked samples from `arrays`, as many as there is room for at each try.
struct InsertAttempt {
    using Result = tl::expected<void, InsertError>;

    std::shared_ptr<ServerCore> core;
    std::span<const ArrayBytes> arrays;
    std::size_t count;
    std::size_t inserted = 0;
    std::int64_t first_try_ns = 0;  // for the detailed metrics

    std::optional<Result> operator()();
    Result give_up(WaitEnd end) const;
};

/// Leases the next batch.
struct SampleAttempt {
    using Result = tl::expected<Batch, SampleError>;
    static constexpr bool takes_for_good = true;

    std::shared_ptr<ServerCore> core;
    LeasedNext rule;

    std::optional<Result> operator()() const;
    Result give_up(WaitEnd end) const;
};

/// Looks whether `sample` would have to wait.
struct BatchAttempt {
    using Result = bool;
    static constexpr bool only_looks = true;

    std::shared_ptr<ServerCore> core;
    LeasedNext rule;

    std::optional<bool> operator()() const noexcept;
    bool give_up(WaitEnd /*end*/) const noexcept { return false; }
};

}  // namespace detail
}  // namespace rondo
