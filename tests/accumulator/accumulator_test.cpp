// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include <rondo/trajectory_accumulator.hpp>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace rondo;
using rondo::test::contains;
using Code = AccumulatorError::Code;

namespace {

TrajectoryAccumulator accumulator_of(std::vector<Timescale> timescales) {
    auto made = TrajectoryAccumulator::create(std::move(timescales));
    REQUIRE(made.has_value());
    return *std::move(made);
}

AccumulatorError error_of(std::vector<Timescale> timescales) {
    auto made = TrajectoryAccumulator::create(std::move(timescales));
    REQUIRE_FALSE(made.has_value());
    return std::move(made).error();
}

/// Three steps, and one episode.
std::vector<Timescale> steps_and_episode() {
    return {
        {"step", {{"obs", dtype::float32, {3, 2}}, {"reward", dtype::float32, {3}}}},
        {"episode", {{"return", dtype::float64, {}}, {"last", dtype::uint8, {5}}}},
    };
}

/// Step `k`: its numbers are 10 k + 1 and 10 k + 2, its reward is k.
Sample step_of(const TrajectoryAccumulator& accumulator, int k) {
    Sample step{accumulator.item_spec("step").value()};
    step.array<float>("obs")[0] = static_cast<float>(10 * k + 1);
    step.array<float>("obs")[1] = static_cast<float>(10 * k + 2);
    step.array<float>("reward")[0] = static_cast<float>(k);
    return step;
}

template <typename T>
std::vector<T> values(const Sample& sample, std::string_view path) {
    Sample copy = sample;
    const auto elements = copy.array<T>(path);
    return {elements.begin(), elements.end()};
}

}  // namespace

TEST_CASE("Accumulator: add k writes row k of every array of a buffered timescale") {
    auto accumulator = accumulator_of(steps_and_episode());
    CHECK(accumulator.spec().text() ==
          "step/obs:float32[3,2],step/reward:float32[3],"
          "episode/return:float64[],episode/last:uint8[5]");
    CHECK(accumulator.item_spec("step")->text() == "obs:float32[2],reward:float32[]");
    for (int k = 0; k < 3; ++k) {
        REQUIRE(accumulator.add("step", step_of(accumulator, k)).has_value());
    }
    const Sample& sample = accumulator.build();
    CHECK(values<float>(sample, "step/obs") == std::vector<float>{1, 2, 11, 12, 21, 22});
    CHECK(values<float>(sample, "step/reward") == std::vector<float>{0, 1, 2});
}

TEST_CASE("Accumulator: a scalar makes a timescale a single item, replaced as a whole") {
    auto accumulator = accumulator_of(steps_and_episode());
    CHECK(accumulator.item_spec("episode")->text() == "return:float64[],last:uint8[5]");
    Sample episode{*accumulator.item_spec("episode")};
    for (std::uint8_t round = 1; round <= 2; ++round) {
        episode.array<double>("return")[0] = round;
        for (auto& last : episode.array<std::uint8_t>("last")) last = round;
        REQUIRE(accumulator.add("episode", episode).has_value());
        const Sample& sample = accumulator.build();
        CHECK(values<double>(sample, "episode/return") == std::vector<double>{1.0 * round});
        CHECK(values<std::uint8_t>(sample, "episode/last") == std::vector<std::uint8_t>(5, round));
    }
}

TEST_CASE("Accumulator: leading dimensions of 1 make a timescale a single item") {
    auto accumulator =
        accumulator_of({{"last", {{"a", dtype::int32, {1, 2}}, {"b", dtype::int8, {1}}}}});
    CHECK(accumulator.item_spec("last")->text() == "a:int32[1,2],b:int8[1]");
    Sample item{*accumulator.item_spec("last")};
    REQUIRE(accumulator.add("last", item).has_value());
    const auto again = accumulator.add("last", item);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == Code::full);
    CHECK(again.error().capacity == 1);
    CHECK(again.error().index == 1);
}

TEST_CASE("Accumulator: a timescale may be one array, and its name any text") {
    auto accumulator =
        accumulator_of({{"a/b~c", {{"", dtype::int32, {2}}}}, {"", {{"x", dtype::int8, {}}}}});
    CHECK(accumulator.spec().arrays()[0].path == "a~1b~0c");
    CHECK(accumulator.spec().arrays()[1].path == "/x");
    const std::int32_t numbers[] = {7, 8};
    for (const std::int32_t& number : numbers) {
        const ArrayBytes row[] = {std::as_bytes(std::span{&number, 1})};
        REQUIRE(accumulator.add("a/b~c", row).has_value());
    }
    CHECK(values<std::int32_t>(accumulator.build(), "a~1b~0c") == std::vector<std::int32_t>{7, 8});
    CHECK(accumulator.item_spec("").has_value());
    CHECK_FALSE(accumulator.item_spec("a~1b~0c").has_value());
}

TEST_CASE("Accumulator: the spec of a server makes the same timescales, whatever their order") {
    const auto spec =
        SampleSpec::parse("step/obs:float32[3,2],episode/return:float64[],step/reward:float32[3]");
    auto accumulator = TrajectoryAccumulator::create(*spec);
    REQUIRE(accumulator.has_value());
    CHECK(accumulator->spec() == *spec);
    for (int k = 0; k < 3; ++k) {
        REQUIRE(accumulator->add("step", step_of(*accumulator, k)).has_value());
    }
    CHECK(values<float>(accumulator->build(), "step/reward") == std::vector<float>{0, 1, 2});
}

TEST_CASE("Accumulator: mixed leading dimensions are refused") {
    const auto error = error_of({
        {"good", {{"x", dtype::int8, {}}}},
        {"step", {{"obs", dtype::float32, {64, 4}}, {"reward", dtype::float32, {63}}}},
    });
    CHECK(error.code == Code::leading_dimensions);
    CHECK(error.timescale == "step");
    CHECK_THAT(error.message(), contains("'step'") && contains("64, 63"));

    // 1 is no exception unless all have it.
    const auto one = error_of({{"t", {{"a", dtype::int8, {1}}, {"b", dtype::int8, {2}}}}});
    CHECK(one.code == Code::leading_dimensions);

    const auto spec = SampleSpec::parse("t/a:int8[4],t/b:int8[2]");
    CHECK(TrajectoryAccumulator::create(*spec).error().code == Code::leading_dimensions);
}

TEST_CASE("Accumulator: an example without arrays is refused") {
    CHECK(error_of({}).code == Code::no_arrays);
    CHECK_THAT(error_of({}).message(), contains("at least one timescale"));
    const auto error = error_of({{"step", {{"obs", dtype::int8, {4}}}}, {"episode", {}}});
    CHECK(error.code == Code::no_arrays);
    CHECK(error.timescale == "episode");
    CHECK_THAT(error.message(), contains("'episode' has no arrays"));
}

TEST_CASE("Accumulator: timescales that make no sample together are refused") {
    const auto twice = error_of({{"t", {{"a", dtype::int8, {}}}}, {"t", {{"b", dtype::int8, {}}}}});
    CHECK(twice.code == Code::bad_spec);
    CHECK_THAT(twice.message(), contains("same name"));
    const auto path = error_of({{"t", {{"a", dtype::int8, {}}, {"a", dtype::int8, {}}}}});
    CHECK(path.code == Code::bad_spec);
    // "t" and "t/" are two arrays of a sample, but one path within the timescale.
    const auto spec = SampleSpec::parse("t:int8[],t/:int8[]");
    REQUIRE(spec.has_value());
    CHECK(TrajectoryAccumulator::create(*spec).error().code == Code::bad_spec);
}

TEST_CASE("Accumulator: one add too many names the timescale, its capacity and the index") {
    auto accumulator = accumulator_of(steps_and_episode());
    for (int k = 0; k < 3; ++k) {
        REQUIRE(accumulator.add("step", step_of(accumulator, k)).has_value());
    }
    const auto added = accumulator.add("step", step_of(accumulator, 3));
    REQUIRE_FALSE(added.has_value());
    CHECK(added.error().code == Code::full);
    CHECK(added.error().timescale == "step");
    CHECK(added.error().capacity == 3);
    CHECK(added.error().index == 3);
    CHECK_THAT(added.error().message(),
               contains("'step'") && contains("3 adds") && contains("index 3"));
    CHECK(values<float>(accumulator.build(), "step/reward") == std::vector<float>{0, 1, 2});
}

TEST_CASE("Accumulator: an unknown timescale is refused with the names that there are") {
    auto accumulator = accumulator_of(steps_and_episode());
    const auto added = accumulator.add("steps", step_of(accumulator, 0));
    REQUIRE_FALSE(added.has_value());
    CHECK(added.error().code == Code::unknown_timescale);
    CHECK(added.error().timescale == "steps");
    CHECK_THAT(added.error().message(), contains("'steps'") && contains("'step', 'episode'"));
    CHECK_FALSE(accumulator.item_spec("steps").has_value());
}

TEST_CASE("Accumulator: an item that does not fit is refused, and nothing written") {
    auto accumulator = accumulator_of(steps_and_episode());
    REQUIRE(accumulator.add("step", step_of(accumulator, 1)).has_value());
    const std::array<std::byte, 8> obs{};
    const std::array<std::byte, 3> short_reward{};
    const ArrayBytes wrong_size[] = {obs, short_reward};
    const ArrayBytes wrong_count[] = {obs};
    for (const auto& added :
         {accumulator.add("step", wrong_size), accumulator.add("step", wrong_count)}) {
        REQUIRE_FALSE(added.has_value());
        CHECK(added.error().code == Code::mismatch);
        CHECK(added.error().timescale == "step");
        CHECK(added.error().index == 1);
        CHECK_THAT(added.error().message(), contains("index 1") && contains("'step'"));
    }
    REQUIRE(accumulator.add("step", step_of(accumulator, 2)).has_value());
    CHECK(values<float>(accumulator.build(), "step/reward") == std::vector<float>{1, 2, 0});
}

TEST_CASE("Accumulator: build hands over its own memory, and the next add goes to row 0 of it") {
    auto accumulator = accumulator_of(steps_and_episode());
    REQUIRE(accumulator.add("step", step_of(accumulator, 1)).has_value());
    CHECK_FALSE(accumulator.full());
    const Sample& sample = accumulator.build();
    const std::byte* const memory = sample.arrays()[0].data();
    CHECK(values<float>(sample, "step/reward") == std::vector<float>{1, 0, 0});

    REQUIRE(accumulator.add("step", step_of(accumulator, 5)).has_value());
    CHECK(values<float>(sample, "step/reward") == std::vector<float>{5, 0, 0});
    const Sample& next = accumulator.build();
    CHECK(&next == &sample);
    CHECK(next.arrays()[0].data() == memory);

    const TrajectoryAccumulator moved = std::move(accumulator);
    CHECK(moved.spec() == sample.spec());
}

TEST_CASE("Accumulator: reset aborts what was begun") {
    auto accumulator = accumulator_of(steps_and_episode());
    for (int k = 0; k < 2; ++k) {
        REQUIRE(accumulator.add("step", step_of(accumulator, 7)).has_value());
    }
    accumulator.reset();
    for (int k = 0; k < 3; ++k) {
        CHECK_FALSE(accumulator.full());
        REQUIRE(accumulator.add("step", step_of(accumulator, k)).has_value());
    }
    CHECK_FALSE(accumulator.full());
    REQUIRE(accumulator.add("episode", Sample{*accumulator.item_spec("episode")}).has_value());
    CHECK(accumulator.full());
    CHECK(values<float>(accumulator.build(), "step/reward") == std::vector<float>{0, 1, 2});
    CHECK_FALSE(accumulator.full());
}

TEST_CASE("Accumulator: arrays of no bytes, and of no rows, do no harm") {
    auto accumulator = accumulator_of(
        {{"empty", {{"a", dtype::int8, {2, 0}}}}, {"none", {{"a", dtype::int8, {0, 3}}}}});
    const ArrayBytes nothing[] = {ArrayBytes{}};
    CHECK(accumulator.add("empty", nothing).has_value());
    CHECK(accumulator.add("empty", nothing).has_value());
    CHECK(accumulator.add("empty", nothing).error().index == 2);
    CHECK(accumulator.add("none", nothing).error().code == Code::full);
}
