// SPDX-License-Identifier: Apache-2.0
#include "cli/cartpole.hpp"

#include <cmath>
#include <numbers>

namespace rondo::cli {

CartPoleState cartpole_step(const CartPoleState& state, Push push) noexcept {
    constexpr double gravity = 9.8;
    constexpr double cart_mass = 1.0;
    constexpr double pole_mass = 0.1;
    constexpr double total_mass = cart_mass + pole_mass;
    constexpr double half_length = 0.5;
    constexpr double pole_moment = pole_mass * half_length;
    constexpr double tau = 0.02;

    const auto& [x, x_speed, angle, angle_speed] = state;
    const double force = push == Push::right ? 10.0 : -10.0;
    const double sine = std::sin(angle);
    const double cosine = std::cos(angle);

    const double shared = (force + pole_moment * angle_speed * angle_speed * sine) / total_mass;
    const double angle_acceleration =
        (gravity * sine - cosine * shared) /
        (half_length * (4.0 / 3.0 - pole_mass * cosine * cosine / total_mass));
    const double x_acceleration = shared - pole_moment * angle_acceleration * cosine / total_mass;

    return {x + tau * x_speed, x_speed + tau * x_acceleration, angle + tau * angle_speed,
            angle_speed + tau * angle_acceleration};
}

bool cartpole_failed(const CartPoleState& state) noexcept {
    constexpr double max_x = 2.4;
    constexpr double max_angle = 12.0 * std::numbers::pi / 180.0;
    return std::abs(state[0]) > max_x || std::abs(state[2]) > max_angle;
}

CartPole::CartPole(std::uint64_t seed) noexcept : random_{seed} {
    reset();
}

CartPole::Outcome CartPole::step(Push push) noexcept {
    state_ = cartpole_step(state_, push);
    ++steps_;
    const bool failed = cartpole_failed(state_);
    return {state_, failed, !failed && steps_ >= cartpole_max_steps};
}

void CartPole::reset() noexcept {
    for (double& quantity : state_) quantity = random_.unit() * 0.1 - 0.05;
    steps_ = 0;
}

}  // namespace rondo::cli
