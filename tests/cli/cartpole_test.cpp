// SPDX-License-Identifier: Apache-2.0
#include "cli/cartpole.hpp"

#include "support/catch.hpp"

#include <cmath>
#include <vector>

using rondo::cli::CartPole;
using rondo::cli::cartpole_failed;
using rondo::cli::cartpole_step;
using rondo::cli::CartPoleState;
using rondo::cli::Push;

namespace {

void require_close(const CartPoleState& state, const CartPoleState& expected) {
    for (std::size_t i = 0; i < state.size(); ++i) {
        CAPTURE(i, state[i], expected[i]);
        REQUIRE(std::abs(state[i] - expected[i]) <= 1e-14);
    }
}

/// Always to the right: fails within a dozen steps or so.
std::vector<CartPoleState> fall(CartPole& environment) {
    std::vector<CartPoleState> states{environment.state()};
    for (;;) {
        const auto outcome = environment.step(Push::right);
        states.push_back(outcome.state);
        if (outcome.terminated) return states;
    }
}

}  // namespace

// The numbers come from the published formulas, evaluated by Python in double precision.
TEST_CASE("CartPole: steps agree with an independent evaluation of the dynamics") {
    require_close(cartpole_step({0, 0, 0, 0}, Push::right),
                  {0.0, 0.1951219512195122, 0.0, -0.2926829268292683});
    require_close(
        cartpole_step({0.01, -0.02, 0.03, 0.04}, Push::left),
        {0.009600000000000001, -0.21553901710278936, 0.030799999999999998, 0.34199522377603914});
    require_close(
        cartpole_step({0.01, -0.02, 0.03, 0.04}, Push::right),
        {0.009600000000000001, 0.17467919574755525, 0.030799999999999998, -0.2430687179600081});
    require_close(cartpole_step({-2.39, -1.5, 0.2, 2.25}, Push::left),
                  {-2.42, -1.6963660254843351, 0.245, 2.5970864511548255});
    require_close(cartpole_step({1.0, 0.5, -0.19, -3.0}, Push::right),
                  {1.01, 0.6956129325870198, -0.25, -3.343663607489335});
}

TEST_CASE("CartPole: twenty steps in a row agree too") {
    CartPoleState state{};
    for (int i = 0; i < 20; ++i) {
        state = cartpole_step(state, state[2] + state[3] > 0 ? Push::right : Push::left);
    }
    require_close(state, {-5.301763576578793e-06, 0.00012390951575749765, 0.00011710445415352624,
                          -0.0027333842341378256});
}

TEST_CASE("CartPole: it fails beyond 2.4 m and beyond 12 degrees, and not before") {
    constexpr double limit = 0.20943951023931953;  // 12 degrees
    CHECK_FALSE(cartpole_failed({2.4, 9, limit, 9}));
    CHECK_FALSE(cartpole_failed({-2.4, 9, -limit, 9}));
    CHECK(cartpole_failed({2.4001, 0, 0, 0}));
    CHECK(cartpole_failed({-2.4001, 0, 0, 0}));
    CHECK(cartpole_failed({0, 0, 0.2095, 0}));
    CHECK(cartpole_failed({0, 0, -0.2095, 0}));
}

TEST_CASE("CartPole: a seed decides all episodes, another seed others") {
    CartPole first{7};
    CartPole second{7};
    CartPole other{8};
    const auto falls = fall(first);
    CHECK(falls == fall(second));
    CHECK(falls != fall(other));
    first.reset();
    second.reset();
    CHECK(first.state() == second.state());
    CHECK(first.state() != falls.front());
}

TEST_CASE("CartPole: an episode begins within 0.05 of zero") {
    CartPole environment{1};
    for (int episode = 0; episode < 1'000; ++episode) {
        environment.reset();
        for (const double quantity : environment.state()) REQUIRE(std::abs(quantity) <= 0.05);
    }
}

TEST_CASE("CartPole: an episode that does not fail is truncated at its 500th step") {
    CartPole environment{3};
    for (int step = 1;; ++step) {
        const CartPoleState& state = environment.state();
        const double lean = 0.1 * state[0] + 0.3 * state[1] + 4 * state[2] + state[3];
        const auto outcome = environment.step(lean > 0 ? Push::right : Push::left);
        REQUIRE_FALSE(outcome.terminated);
        REQUIRE(outcome.truncated == (step == 500));
        if (outcome.truncated) break;
    }
}
