// SPDX-License-Identifier: Apache-2.0
#include "cli/transition.hpp"

#include "cli/checksum.hpp"

#include <algorithm>

namespace rondo::cli {
namespace {

CartPoleState state_at(std::span<const double> states, std::size_t row) {
    CartPoleState state;
    std::ranges::copy(states.subspan(row * state.size(), state.size()), state.begin());
    return state;
}

}  // namespace

SampleSpec transition_spec() {
    constexpr std::uint64_t quantities = std::tuple_size_v<CartPoleState>;
    return SampleSpec::create({
                                  {"actor", dtype::uint32, {}},
                                  {"sequence", dtype::uint64, {}},
                                  {"sent_at", dtype::int64, {}},
                                  {"obs", dtype::float64, {quantities}},
                                  {"action", dtype::uint8, {}},
                                  {"reward", dtype::float32, {}},
                                  {"next_obs", dtype::float64, {quantities}},
                                  {"terminated", dtype::boolean, {}},
                                  {"truncated", dtype::boolean, {}},
                                  {"checksum", dtype::uint64, {}},
                              })
        .value();
}

TransitionSample::TransitionSample()
    : sample_{transition_spec()},
      actor_{sample_.array<std::uint32_t>("actor")},
      sequence_{sample_.array<std::uint64_t>("sequence")},
      sent_at_{sample_.array<std::int64_t>("sent_at")},
      obs_{sample_.array<double>("obs")},
      action_{sample_.array<std::uint8_t>("action")},
      reward_{sample_.array<float>("reward")},
      next_obs_{sample_.array<double>("next_obs")},
      terminated_{sample_.array<bool>("terminated")},
      truncated_{sample_.array<bool>("truncated")},
      checksum_{sample_.array<std::uint64_t>("checksum")} {}

Sample& TransitionSample::fill(const Transition& transition) {
    actor_[0] = transition.actor;
    sequence_[0] = transition.sequence;
    sent_at_[0] = transition.sent_at.count();
    std::ranges::copy(transition.obs, obs_.begin());
    action_[0] = static_cast<std::uint8_t>(transition.action);
    reward_[0] = transition.reward;
    std::ranges::copy(transition.next_obs, next_obs_.begin());
    terminated_[0] = transition.terminated;
    truncated_[0] = transition.truncated;

    const std::span<const ArrayBytes> arrays = sample_.arrays();
    std::uint64_t hash = fnv1a_basis;
    for (const ArrayBytes array : arrays.first(arrays.size() - 1)) hash = fnv1a(array, hash);
    checksum_[0] = hash;
    return sample_;
}

TransitionBatch::TransitionBatch(const Batch& batch)
    : actor_{batch.array<std::uint32_t>("actor")},
      sequence_{batch.array<std::uint64_t>("sequence")},
      sent_at_{batch.array<std::int64_t>("sent_at")},
      obs_{batch.array<double>("obs")},
      action_{batch.array<std::uint8_t>("action")},
      reward_{batch.array<float>("reward")},
      next_obs_{batch.array<double>("next_obs")},
      terminated_{batch.array<bool>("terminated")},
      truncated_{batch.array<bool>("truncated")},
      checksum_{batch.array<std::uint64_t>("checksum")},
      checked_{} {
    for (std::size_t index = 0; index < checked_.size(); ++index) {
        checked_[index] = {batch.array<std::byte>(index),
                           static_cast<std::size_t>(batch.spec().array_bytes(index))};
    }
}

std::uint64_t TransitionBatch::computed_checksum(std::size_t row) const {
    std::uint64_t hash = fnv1a_basis;
    for (const auto& [bytes, row_bytes] : checked_) {
        hash = fnv1a(bytes.subspan(row * row_bytes, row_bytes), hash);
    }
    return hash;
}

Transition TransitionBatch::transition(std::size_t row) const {
    return {.actor = actor_[row],
            .sequence = sequence_[row],
            .sent_at = std::chrono::nanoseconds{sent_at_[row]},
            .obs = state_at(obs_, row),
            .action = static_cast<Push>(action_[row]),
            .reward = reward_[row],
            .next_obs = state_at(next_obs_, row),
            .terminated = terminated_[row],
            .truncated = truncated_[row]};
}

}  // namespace rondo::cli
