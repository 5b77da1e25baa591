// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/random.hpp"

#include <array>
#include <cstdint>

namespace rondo::cli {

/// Position (m) and speed (m/s) of the cart, angle (rad) and angular speed (rad/s) of the pole.
using CartPoleState = std::array<double, 4>;

enum class Push : std::uint8_t { left = 0, right = 1 };

/// One Euler step of 0.02 s. Bit for bit the same for the same arguments in one program.
[[nodiscard]] CartPoleState cartpole_step(const CartPoleState& state, Push push) noexcept;

/// Whether the cart left its track (2.4 m) or the pole leans by more than 12 degrees.
[[nodiscard]] bool cartpole_failed(const CartPoleState& state) noexcept;

/// Steps after which an episode ends however well it goes.
inline constexpr std::uint32_t cartpole_max_steps = 500;

/// The pole on a cart of Barto, Sutton and Anderson (1983), as an environment with episodes. Every
/// step is rewarded with 1. Thread-safety: none.
class CartPole {
public:
    /// Begins an episode. What happens depends on `seed` and the pushes alone.
    explicit CartPole(std::uint64_t seed) noexcept;

    [[nodiscard]] const CartPoleState& state() const noexcept { return state_; }

    struct Outcome {
        CartPoleState state;
        bool terminated;  ///< it failed
        bool truncated;   ///< it did not fail, and the episode's steps are used up
    };

    /// One step. Once it ended an episode, `reset` comes next.
    [[nodiscard]] Outcome step(Push push) noexcept;

    /// Begins an episode, with every quantity within 0.05 of zero.
    void reset() noexcept;

private:
    Random random_;
    CartPoleState state_{};
    std::uint32_t steps_ = 0;
};

}  // namespace rondo::cli
