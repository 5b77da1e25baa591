// SPDX-License-Identifier: Apache-2.0
#include "cli/verifier.hpp"

#include "cli/format.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

namespace rondo::cli {
namespace {

constexpr std::size_t max_problems = 10;

std::string name_of(std::uint32_t actor, std::uint64_t sequence) {
    return "actor " + std::to_string(actor) + ", sample " + grouped(sequence);
}

std::string hex(std::uint64_t number) {
    char text[19];
    std::snprintf(text, sizeof text, "%#018llx", static_cast<unsigned long long>(number));
    return text;
}

// Compares bits: two NaNs may be the same, 0.0 and -0.0 are not.
bool same(const CartPoleState& a, const CartPoleState& b) noexcept {
    return std::ranges::equal(a, b, {}, std::bit_cast<std::uint64_t, double>,
                              std::bit_cast<std::uint64_t, double>);
}

}  // namespace

Verifier::Verifier(std::uint32_t actors, std::uint64_t samples_each)
    : actors_(actors), samples_each_{samples_each} {}

void Verifier::blame(std::string problem) {
    ++problem_count_;
    if (problems_.size() < max_problems) problems_.push_back(std::move(problem));
}

void Verifier::check(const Batch& batch, std::chrono::steady_clock::time_point now) {
    now_ = now.time_since_epoch();
    samples_ += batch.size();
    const TransitionBatch transitions{batch};
    for (std::size_t row = 0; row < batch.size(); ++row) {
        check_row(transitions, row, batch.index());
    }
}

void Verifier::check_row(const TransitionBatch& batch, std::size_t row, std::uint64_t batch_index) {
    const std::uint32_t id = batch.actor(row);
    const std::uint64_t sequence = batch.sequence(row);
    const std::uint64_t sent = batch.checksum(row);
    const std::uint64_t computed = batch.computed_checksum(row);
    const bool intact = sent == computed;
    if (!intact) {
        blame(name_of(id, sequence) + ": its checksum is " + hex(sent) + ", its bytes give " +
              hex(computed) + " (row " + std::to_string(row) + " of batch " +
              std::to_string(batch_index) + ")");
    }
    if (id >= actors_.size()) {
        if (intact)
            blame("a sample came from actor " + std::to_string(id) + ", whom nobody started");
        return;
    }
    Actor& actor = actors_[id];
    ++actor.came;
    // The bytes that are wrong may be these two; then nothing can be said about the order.
    if (!intact && sequence != actor.next_sequence) {
        actor.lose_track();
        return;
    }
    if (!check_sequence(actor, id, sequence)) return;
    if (!intact) {
        actor.lose_track();
        return;
    }
    const Transition step = batch.transition(row);
    check_step(actor, step);
    follow(actor, step);
    const auto latency = std::max(std::chrono::nanoseconds{0}, now_ - step.sent_at);
    latency_.add(static_cast<std::uint64_t>(latency.count()));
}

bool Verifier::check_sequence(Actor& actor, std::uint32_t id, std::uint64_t sequence) {
    if (sequence < actor.next_sequence) {
        blame(name_of(id, sequence) + " came twice or late: " + grouped(actor.next_sequence) +
              " was due");
        return false;
    }
    if (sequence > actor.next_sequence) {
        blame(name_of(id, sequence) + " came where " + grouped(actor.next_sequence) +
              " was due: " + counted(sequence - actor.next_sequence, "sample") + " missing");
        actor.lose_track();
    }
    actor.next_sequence = sequence + 1;
    return true;
}

void Verifier::check_step(const Actor& actor, const Transition& step) {
    const auto require = [&](bool right, const char* otherwise) {
        if (!right) blame(name_of(step.actor, step.sequence) + ": " + otherwise);
    };
    require(!actor.state || same(*actor.state, step.obs),
            "its obs is not the next_obs of the sample before");
    require(same(cartpole_step(step.obs, step.action), step.next_obs),
            "its next_obs does not follow from obs and action");
    require(step.terminated == cartpole_failed(step.next_obs),
            "terminated does not follow from next_obs");
    require(step.reward == 1.0F, "its reward is not 1");
    if (!actor.episode_steps) return;
    const bool out_of_steps = *actor.episode_steps + 1 == cartpole_max_steps;
    require(step.truncated == (out_of_steps && !step.terminated),
            "truncated does not follow from the episode's length");
}

void Verifier::follow(Actor& actor, const Transition& step) {
    if (step.terminated || step.truncated) {
        ++episodes_;
        actor.state.reset();
        actor.episode_steps = 0;
        return;
    }
    actor.state = step.next_obs;
    if (actor.episode_steps) ++*actor.episode_steps;
}

void Verifier::expect_all() {
    for (std::uint32_t id = 0; id < actors_.size(); ++id) {
        if (actors_[id].came == samples_each_) continue;
        blame("actor " + std::to_string(id) + ": " + grouped(actors_[id].came) + " of its " +
              counted(samples_each_, "sample") + " came");
    }
}

}  // namespace rondo::cli
