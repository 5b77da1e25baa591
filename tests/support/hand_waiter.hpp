// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/detail/waiter.hpp>

#include <cstddef>

namespace rondo::test {

/// A waiter that only counts its permits. For one thread.
class HandWaiter final : public detail::Waiter {
public:
    void wake() noexcept override { ++permits_; }

    [[nodiscard]] std::size_t permits() const noexcept { return permits_; }

    /// Takes one permit away; false if it has none.
    bool use_permit() noexcept {
        if (permits_ == 0) return false;
        --permits_;
        return true;
    }

private:
    std::size_t permits_ = 0;
};

}  // namespace rondo::test
