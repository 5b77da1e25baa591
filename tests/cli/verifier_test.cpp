// SPDX-License-Identifier: Apache-2.0
#include "cli/verifier.hpp"

#include "cli/cartpole.hpp"
#include "cli/transition.hpp"
#include "support/catch.hpp"
#include <rondo/server.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using rondo::cli::CartPole;
using rondo::cli::Push;
using rondo::cli::Transition;
using rondo::cli::Verifier;
using rondo::test::contains;

namespace {

constexpr std::chrono::steady_clock::time_point sent{1'000s};

/// Feeds transitions to a verifier, through a server in this process.
class Feed {
public:
    Feed(std::uint32_t actors, std::uint64_t samples_each) : verifier{actors, samples_each} {}

    void give(const Transition& transition) { give(sample_.fill(transition)); }

    void give_corrupt(const Transition& transition, const char* path) {
        rondo::Sample& sample = sample_.fill(transition);
        sample.array<std::byte>(path).back() ^= std::byte{0x10};
        give(sample);
    }

    [[nodiscard]] std::string problems() const {
        std::string text;
        for (const std::string& problem : verifier.problems()) text += problem + "\n";
        return text;
    }

    Verifier verifier;

private:
    void give(const rondo::Sample& sample) {
        REQUIRE(server_.try_insert(sample) == true);
        auto batch = server_.try_sample();
        REQUIRE(batch.has_value());
        REQUIRE(batch->has_value());
        verifier.check(**batch, sent + 3ms);
    }

    rondo::Server server_ =
        rondo::Server::create(rondo::cli::transition_spec(), {.batch_size = 1, .num_buffers = 2})
            .value();
    rondo::cli::TransitionSample sample_;
};

/// What an actor does that always pushes to the right.
std::vector<Transition> play(std::uint32_t actor, std::size_t count) {
    CartPole environment{actor};
    std::vector<Transition> transitions;
    for (std::uint64_t sequence = 0; sequence < count; ++sequence) {
        Transition t{.actor = actor, .sequence = sequence, .sent_at = sent.time_since_epoch()};
        t.obs = environment.state();
        t.action = Push::right;
        t.reward = 1.0F;
        const auto [state, terminated, truncated] = environment.step(t.action);
        t.next_obs = state;
        t.terminated = terminated;
        t.truncated = truncated;
        if (terminated) environment.reset();
        transitions.push_back(t);
    }
    return transitions;
}

/// The problems after `change` was done to the sample `place` of 30.
std::string after(std::size_t place, const std::function<void(Transition&)>& change) {
    auto transitions = play(0, 30);
    change(transitions[place]);
    Feed feed{1, 30};
    for (const Transition& transition : transitions) feed.give(transition);
    feed.verifier.expect_all();
    return feed.problems();
}

}  // namespace

TEST_CASE("Verifier: what actors really did is without a problem") {
    const auto first = play(0, 200);
    const auto second = play(1, 200);
    Feed feed{2, 200};
    for (std::size_t i = 0; i < first.size(); ++i) {
        feed.give(first[i]);
        feed.give(second[i]);
    }
    feed.verifier.expect_all();
    CHECK(feed.problems().empty());
    CHECK(feed.verifier.samples() == 400);
    CHECK(feed.verifier.samples_of(1) == 200);
    CHECK(feed.verifier.episodes() > 20);
    CHECK(feed.verifier.latency().total() == 400);
    const double median = feed.verifier.latency().percentile(0.5);
    CHECK(median > 2.97e6);
    CHECK(median < 3.03e6);
}

TEST_CASE("Verifier: a changed byte is found in every array") {
    for (const char* path : {"actor", "sequence", "sent_at", "obs", "action", "reward", "next_obs",
                             "terminated", "truncated", "checksum"}) {
        const auto transitions = play(0, 30);
        Feed feed{1, 30};
        for (std::size_t i = 0; i < transitions.size(); ++i) {
            if (i == 12) {
                feed.give_corrupt(transitions[i], path);
            } else {
                feed.give(transitions[i]);
            }
        }
        CAPTURE(path);
        CHECK_THAT(feed.problems(), contains("its checksum is 0x"));
    }
}

TEST_CASE("Verifier: a corrupt sample is one problem, and those after it are none") {
    const auto transitions = play(0, 30);
    Feed feed{1, 30};
    for (std::size_t i = 0; i < transitions.size(); ++i) {
        i == 12 ? feed.give_corrupt(transitions[i], "obs") : feed.give(transitions[i]);
    }
    feed.verifier.expect_all();
    CHECK(feed.verifier.problem_count() == 1);
    CHECK_THAT(feed.problems(), contains("actor 0, sample 12: its checksum"));
}

TEST_CASE("Verifier: a missing sample is found, and those after it are none") {
    const auto transitions = play(0, 30);
    Feed feed{1, 30};
    for (const Transition& transition : transitions) {
        if (transition.sequence != 5) feed.give(transition);
    }
    CHECK(feed.problems() == "actor 0, sample 6 came where 5 was due: 1 sample missing\n");
    feed.verifier.expect_all();
    CHECK_THAT(feed.problems(), contains("actor 0: 29 of its 30 samples came"));
}

TEST_CASE("Verifier: the last sample missing is found") {
    Feed feed{2, 3};
    for (const Transition& transition : play(0, 3)) feed.give(transition);
    for (const Transition& transition : play(1, 2)) feed.give(transition);
    feed.verifier.expect_all();
    CHECK(feed.problems() == "actor 1: 2 of its 3 samples came\n");
}

TEST_CASE("Verifier: a sample that comes twice is found") {
    const auto transitions = play(0, 30);
    Feed feed{1, 30};
    for (const Transition& transition : transitions) {
        feed.give(transition);
        if (transition.sequence == 5) feed.give(transition);
    }
    CHECK(feed.problems() == "actor 0, sample 5 came twice or late: 6 was due\n");
    feed.verifier.expect_all();
    CHECK_THAT(feed.problems(), contains("actor 0: 31 of its 30 samples came"));
}

TEST_CASE("Verifier: two samples in the wrong order are found") {
    auto transitions = play(0, 30);
    std::swap(transitions[5], transitions[6]);
    Feed feed{1, 30};
    for (const Transition& transition : transitions) feed.give(transition);
    CHECK_THAT(feed.problems(), contains("sample 6 came where 5 was due"));
    CHECK_THAT(feed.problems(), contains("sample 5 came twice or late: 7 was due"));
}

TEST_CASE("Verifier: a step that the environment does not take is found") {
    CHECK_THAT(after(3, [](Transition& t) { t.next_obs[1] += 1e-15; }),
               contains("actor 0, sample 3: its next_obs does not follow from obs and action"));
    CHECK_THAT(after(3, [](Transition& t) { t.obs[3] += 1e-15; }),
               contains("actor 0, sample 3: its obs is not the next_obs of the sample before"));
    CHECK_THAT(after(3, [](Transition& t) { t.action = Push::left; }),
               contains("its next_obs does not follow"));
    CHECK_THAT(after(3, [](Transition& t) { t.terminated = true; }),
               contains("terminated does not follow"));
    CHECK_THAT(after(3, [](Transition& t) { t.truncated = true; }),
               contains("truncated does not follow"));
    CHECK_THAT(after(3, [](Transition& t) { t.reward = 0.0F; }), contains("its reward is not 1"));
}

TEST_CASE("Verifier: an actor whom nobody started is found") {
    CHECK_THAT(after(3, [](Transition& t) { t.actor = 7; }),
               contains("a sample came from actor 7, whom nobody started"));
}

TEST_CASE("Verifier: of many problems the first ten are kept, and all are counted") {
    Feed feed{1, 1};
    for (int i = 0; i < 25; ++i) feed.verifier.blame("problem " + std::to_string(i));
    CHECK(feed.verifier.problems().size() == 10);
    CHECK(feed.verifier.problem_count() == 25);
}
