// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/cartpole.hpp"
#include "cli/histogram.hpp"
#include "cli/transition.hpp"
#include <rondo/batch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rondo::cli {

/// Checks every transition that the demo's learner gets: nothing lost, nothing twice, each actor's
/// order kept, every byte as it was sent, and every step one that the environment takes.
/// Thread-safety: none.
class Verifier {
public:
    Verifier(std::uint32_t actors, std::uint64_t samples_each);

    /// Checks a batch that was leased at `now`.
    void check(const Batch& batch, std::chrono::steady_clock::time_point now);

    /// Notes what else went wrong.
    void blame(std::string problem);

    /// Notes each actor whose samples have not all come.
    void expect_all();

    /// The first ten problems, each a sentence without its full stop.
    [[nodiscard]] std::span<const std::string> problems() const noexcept { return problems_; }
    [[nodiscard]] std::uint64_t problem_count() const noexcept { return problem_count_; }

    [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
    [[nodiscard]] std::uint64_t samples_of(std::uint32_t actor) const {
        return actors_[actor].came;
    }
    [[nodiscard]] std::uint64_t episodes() const noexcept { return episodes_; }

    /// Nanoseconds from an actor's send to the lease, of the samples that were right.
    [[nodiscard]] const Histogram& latency() const noexcept { return latency_; }

private:
    struct Actor {
        std::uint64_t came = 0;
        std::uint64_t next_sequence = 0;
        std::optional<CartPoleState> state;              // where the next step begins, if known
        std::optional<std::uint32_t> episode_steps = 0;  // so far, if known

        void lose_track() noexcept {
            state.reset();
            episode_steps.reset();
        }
    };

    void check_row(const TransitionBatch& batch, std::size_t row, std::uint64_t batch_index);
    /// False if the sample is none to go on from.
    bool check_sequence(Actor& actor, std::uint32_t id, std::uint64_t sequence);
    void check_step(const Actor& actor, const Transition& step);
    void follow(Actor& actor, const Transition& step);

    std::vector<Actor> actors_;
    std::uint64_t samples_each_;
    std::uint64_t samples_ = 0;
    std::uint64_t episodes_ = 0;
    std::vector<std::string> problems_;
    std::uint64_t problem_count_ = 0;
    Histogram latency_;
    std::chrono::nanoseconds now_{};
};

}  // namespace rondo::cli
