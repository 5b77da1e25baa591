// SPDX-License-Identifier: Apache-2.0
#include "cli/actor_processes.hpp"
#include "cli/cartpole.hpp"
#include "cli/demo.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/host_port.hpp"
#include "cli/random.hpp"
#include "cli/transition.hpp"
#include <rondo/blocking_tcp_client.hpp>

#include <chrono>
#include <cstddef>

namespace rondo::cli {
namespace {

/// A player of no great skill: mostly pushes to where the pole falls.
Push choose_push(const CartPoleState& state, Random& random) noexcept {
    if (random.next() % 4 == 0) return random.next() % 2 == 0 ? Push::left : Push::right;
    return state[2] + state[3] > 0 ? Push::right : Push::left;
}

class DemoActor {
public:
    explicit DemoActor(const DemoActorOptions& options)
        : options_{options}, environment_{options.seed}, choices_{~options.seed} {}

    /// The next transition, but for the time at which it is sent.
    Transition step() {
        Transition transition{.actor = options_.id, .sequence = next_++};
        transition.obs = environment_.state();
        transition.action = choose_push(transition.obs, choices_);
        const auto [state, terminated, truncated] = environment_.step(transition.action);
        transition.reward = 1.0F;
        transition.next_obs = state;
        transition.terminated = terminated;
        transition.truncated = truncated;
        if (terminated || truncated) environment_.reset();
        return transition;
    }

    /// Sends all its samples, and returns once they are in the ring.
    tl::expected<void, SendError> play(BlockingTcpClient& client) {
        for (std::uint64_t i = 0; i < options_.samples; ++i) {
            if (auto sent = send(client, step()); !sent) return sent;
        }
        return client.wait();
    }

private:
    tl::expected<void, SendError> send(BlockingTcpClient& client, Transition transition) {
        const Sabotage& sabotage = options_.sabotage;
        const auto sequence = transition.sequence;
        if (sabotage.skip == sequence) return {};
        if (sabotage.cheat == sequence) transition.next_obs[0] += 1e-9;
        transition.sent_at = std::chrono::steady_clock::now().time_since_epoch();
        Sample& sample = sample_.fill(transition);
        if (sabotage.corrupt == sequence) {
            sample.array<std::byte>("next_obs").back() ^= std::byte{1};
        }
        if (sabotage.duplicate == sequence) {
            if (auto sent = client.send(sample); !sent) return sent;
        }
        return client.send(sample);
    }

    const DemoActorOptions& options_;
    CartPole environment_;
    Random choices_;
    TransitionSample sample_;
    std::uint64_t next_ = 0;
};

}  // namespace

int run_demo_actor(const DemoActorOptions& options) {
    if (options.parent) end_with_parent(*options.parent);
    const auto fail = [&](const std::string& why, ExitCode code) {
        complain("actor " + std::to_string(options.id) + ": " + why);
        return code;
    };
    const auto where = parse_host_port(options.connect);
    if (!where) return fail(where.error(), exit_usage);

    auto client = BlockingTcpClient::connect(where->host, where->port, transition_spec());
    if (!client) return fail(client.error().message(), exit_failed);
    const auto played = DemoActor{options}.play(*client);
    const std::uint64_t unacknowledged = client->close();
    if (!played) return fail(played.error().message(), exit_failed);
    if (unacknowledged > 0) {
        return fail(counted(unacknowledged, "sample") + " not acknowledged", exit_failed);
    }
    return exit_ok;
}

std::vector<std::string> arguments_of(const DemoActorOptions& options) {
    std::vector<std::string> arguments{"demo-actor"};
    const auto add = [&](const char* name, const auto& value) {
        arguments.emplace_back(name);
        arguments.emplace_back(std::to_string(value));
    };
    arguments.insert(arguments.end(), {"--connect", options.connect});
    add("--id", options.id);
    add("--samples", options.samples);
    add("--seed", options.seed);
    if (options.parent) add("--parent", *options.parent);
    if (options.sabotage.corrupt) add("--corrupt", *options.sabotage.corrupt);
    if (options.sabotage.skip) add("--skip", *options.sabotage.skip);
    if (options.sabotage.duplicate) add("--duplicate", *options.sabotage.duplicate);
    if (options.sabotage.cheat) add("--cheat", *options.sabotage.cheat);
    return arguments;
}

}  // namespace rondo::cli
