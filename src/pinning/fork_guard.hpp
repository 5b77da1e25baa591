// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rondo::detail {

/// Remembers in which process it was made: CUDA's registrations do not survive a fork, and a child
/// that undid its parent's would wreck them. Cheap enough for every insert: one load.
/// Thread-safe. It knows the children of fork(), not those of a raw clone(2).
class ForkGuard {
public:
    ForkGuard() noexcept;

    /// True in a child that was forked since.
    [[nodiscard]] bool forked() const noexcept;

private:
    std::uint32_t generation_;
};

}  // namespace rondo::detail
